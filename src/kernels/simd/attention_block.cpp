// SPDX-License-Identifier: Apache-2.0
// Attention of a block of queries of one head over packed keys: steps of keys outside, tiles of
// queries inside, so that a step's keys and values serve every tile from the nearest cache.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention_block.cpp"
#include "kernels/simd/targets.h"
#include "kernels/simd/attention_block-inl.h"
#include "kernels/simd/attention_rows-inl.h"
#include "kernels/simd/attention_tiles-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Keys and values of more bytes are in the third level cache when a block comes back to them: the next step of
/// them is fetched during each. (Of blocks of 96, 192 and 384 queries the first read them too often.)
constexpr std::int64_t kNearBytes = 1 << 20;

/// Scores up to 2^40 (in powers of two, either sign) and values up to 2^60 need no reference at
/// all: weights, their sums over 2^24 keys and the products stay normal numbers.
template <class T>
constexpr T kBoundedScore = 40;
template <class T>
constexpr T kBoundedValue = static_cast<T>(std::int64_t{1} << 60);
/// Smaller values would be lost under weights of 2^-40, but not under those that a reference leaves larger.
template <class T>
constexpr T kLeastBoundedValue = std::numeric_limits<T>::min() * static_cast<T>(std::int64_t{1} << 46);

/// A tile of at most kTileRows queries.
template <class T>
struct QueryTile {
  std::int64_t query;  ///< the first one
  std::int64_t rows;
  const T* queries;  ///< rows query_stride apart
  std::int64_t query_stride;
  T* out;
  T* sums;
  T* references;
  bool bounded;  ///< every score it sees is small: weights need no reference
};

enum class ScoreKind { raw, weights, masked_weights };

/// One register tile of scores or weights with the first `vectors` vectors of a panel.
template <int kRows, int kVectors, class T>
void run_score_vectors(ScoreKind kind, int vectors, const ScoreTile<T>& tile) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return run_score_vectors<kRows, kVectors - 1>(kind, vectors, tile);
  }
  if (kind == ScoreKind::raw) return compute_scores<kRows, kVectors>(tile);
  if constexpr (kVectors == kScoreVectors) {
    if (kind == ScoreKind::weights) return compute_weights<kRows, kVectors, false>(tile);
  }
  compute_weights<kRows, kVectors, true>(tile);
}

template <class T>
void run_score_rows(int rows, ScoreKind kind, int vectors, const ScoreTile<T>& tile) {
  if (rows == kScoreRows) return run_score_vectors<kScoreRows, kScoreVectors>(kind, vectors, tile);
  if (rows == kSmallRows) return run_score_vectors<kSmallRows, kScoreVectors>(kind, vectors, tile);
  return run_score_vectors<1, kScoreVectors>(kind, vectors, tile);
}

template <int kVectors, class T>
void run_value_vectors(int rows, int vectors, const ValueTile<T>& tile) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return run_value_vectors<kVectors - 1>(rows, vectors, tile);
  }
  if (rows == kScoreRows) return sum_values_tile<kScoreRows, kVectors>(tile);
  if (rows == kSmallRows) return sum_values_tile<kSmallRows, kVectors>(tile);
  return sum_values_tile<1, kVectors>(tile);
}

/// Vectors of the next group of value columns when `left` are left: 5 are better as 3 + 2 than 4 + 1.
constexpr int next_vectors(std::int64_t left) {
  if (kValueVectors == 4 && left == 5) return 3;
  return static_cast<int>(std::min<std::int64_t>(left, kValueVectors));
}

/// A run of panels of a step: keys [begin, end) counted from the step's first.
struct KeyRun {
  std::int64_t begin, end;
  bool first, last;  ///< of the step
};

/// Attention of tiles of queries of one head.
template <class T>
class HeadAttention {
 public:
  HeadAttention(const HeadMask<T>& mask, const PackedHead<T>& head, const BlockScratch<T>& scratch, Feed<T>& feed)
      : mask_(mask), head_(head), scratch_(scratch), feed_(feed) {}

  /// Folds the keys of one step into the sums of `tile`.
  void step(const QueryTile<T>& tile, std::int64_t first_key) {
    const Tag<T> d;
    const std::int64_t limit = mask_.limit(tile.query + tile.rows - 1);
    if (limit <= first_key) return;
    num_panels_ = ceil_div(std::min<std::int64_t>(limit - first_key, kStepKeys), kPanelKeys<T>);
    for (std::int64_t i = 0; i < tile.rows; ++i) hn::Store(hn::Zero(d), d, scratch_.step_sums + i * kLanes<T>);
    if (!tile.bounded) {
      for (std::int64_t i = 0; i < tile.rows; ++i)
        hn::Store(hn::Set(d, -kInfinity<T>), d, scratch_.maxima + i * kLanes<T>);
    }
    bool any = false;
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      kinds_[p] = score_panel(tile, first_key, p, limit);
      any = any || kinds_[p] != PanelKind::skipped;
    }
    if (!any) return;
    if (!tile.bounded) finish_scores(tile, first_key, limit);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      T* sum = tile.sums + i * kLanes<T>;
      hn::Store(hn::Add(hn::Load(d, sum), hn::Load(d, scratch_.step_sums + i * kLanes<T>)), d, sum);
    }
    if (head_.value_maxima[first_key / kStepKeys] < kInfinity<T>) {
      sum_values(tile, first_key, limit);
    } else {
      sum_seen_values(tile, first_key);
    }
  }

 private:
  std::uint64_t* bits(std::int64_t panel) const { return scratch_.bits + panel * kTileRows; }

  PanelKind score_panel(const QueryTile<T>& tile, std::int64_t first_key, std::int64_t p, std::int64_t limit) {
    const std::int64_t key = first_key + p * kPanelKeys<T>;
    const PanelKind kind = mask_.panel_kind(tile.query, tile.rows, key);
    if (kind == PanelKind::skipped) return kind;
    if (kind == PanelKind::masked) {
      mask_.panel_bits(tile.query, tile.rows, key, bits(p));
    } else if (!tile.bounded) {
      std::fill_n(bits(p), tile.rows, low_bits(kPanelKeys<T>));
    }
    T* weights = scratch_.weights + p * kPanelKeys<T>;
    const ScoreTile<T> scores{head_.head_dim,        tile.queries, tile.query_stride,  head_.panel(key),
                              {head_.panel(key), 0}, weights,      scratch_.step_sums, bits(p)};
    if (tile.bounded) {
      run_scores(kind == PanelKind::full ? ScoreKind::weights : ScoreKind::masked_weights, tile, key, scores);
      return kind;
    }
    run_scores(ScoreKind::raw, tile, key, scores);
    if (mask_.changes_scores()) change_scores(mask_, tile.query, tile.rows, key, weights, bits(p));
    update_maxima(tile.rows, vectors_of<T>(limit - key), weights, bits(p), scratch_.maxima);
    return kind;
  }

  /// Scores or weights of the tile with the panel at `key`, register tile by register tile.
  void run_scores(ScoreKind kind, const QueryTile<T>& tile, std::int64_t key, ScoreTile<T> scores) {
    for (std::int64_t row = 0; row < tile.rows;) {
      const int rows = next_rows(tile.rows - row);
      // Rows see different numbers of keys: stop at the last vector that any of these sees.
      const std::int64_t seen = mask_.limit(tile.query + row + rows - 1) - key;
      if (seen > 0) {
        scores.upcoming = feed_.take(head_.head_dim / 2, scores.panel);
        run_score_rows(rows, kind, vectors_of<T>(seen), scores);
      }
      scores.queries += rows * tile.query_stride;
      scores.weights += rows * kWeightStride;
      scores.sums += rows * kLanes<T>;
      scores.bits += rows;
      row += rows;
    }
  }

  /// The online softmax: references from the maxima of the step, then weights from scores.
  void finish_scores(const QueryTile<T>& tile, std::int64_t first_key, std::int64_t limit) {
    const Tag<T> d;
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const T row_max = hn::GetLane(hn::MaxOfLanes(d, hn::Load(d, scratch_.maxima + i * kLanes<T>)));
      raise_reference<T>(row_max, head_.value_stride,
                         {tile.out + i * head_.value_stride, tile.sums + i * kLanes<T>, tile.references + i});
    }
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      if (kinds_[p] == PanelKind::skipped) continue;
      weights_of_scores(tile.rows, vectors_of<T>(limit - first_key - p * kPanelKeys<T>),
                        scratch_.weights + p * kPanelKeys<T>, bits(p), tile.references, scratch_.step_sums);
    }
  }

  /// Sums values run by run of panels that are not skipped.
  void sum_values(const QueryTile<T>& tile, std::int64_t first_key, std::int64_t limit) {
    std::int64_t last = num_panels_ - 1;
    while (kinds_[last] == PanelKind::skipped) --last;
    bool first = true;
    for (std::int64_t p = 0; p <= last;) {
      if (kinds_[p] == PanelKind::skipped) {
        ++p;
        continue;
      }
      std::int64_t q = p;
      while (q <= last && kinds_[q] != PanelKind::skipped) ++q;
      const std::int64_t end = std::min(q * kPanelKeys<T>, limit - first_key);
      for (std::int64_t begin = p * kPanelKeys<T>; begin < end; begin += kValueKeys) {
        const std::int64_t stop = std::min(end, begin + kValueKeys);
        sum_run(tile, first_key, {begin, stop, first, q > last && stop == end});
        first = false;
      }
      p = q;
    }
  }

  void sum_run(const QueryTile<T>& tile, std::int64_t first_key, const KeyRun& run) {
    const std::int64_t stride = head_.value_stride, vectors = stride / kLanes<T>;
    for (std::int64_t column = 0; column < vectors;) {
      const int group = next_vectors(vectors - column);
      for (std::int64_t row = 0; row < tile.rows;) {
        const int rows = next_rows(tile.rows - row);
        // Rows see different numbers of keys: stop at the last one that any of these sees.
        const std::int64_t seen = mask_.limit(tile.query + row + rows - 1) - first_key;
        const std::int64_t offset = row * stride + column * kLanes<T>;
        const ValueTile<T> values{std::max<std::int64_t>(0, std::min(run.end, seen) - run.begin),
                                  scratch_.weights + row * kWeightStride + run.begin,
                                  head_.values + (first_key + run.begin) * stride + column * kLanes<T>,
                                  stride,
                                  run.first ? nullptr : scratch_.partial + offset,
                                  run.last ? tile.out + offset : scratch_.partial + offset,
                                  run.last,
                                  {head_.values + first_key * stride, 0}};
        run_value_vectors<kValueVectors>(rows, group, values);
        row += rows;
      }
      column += group;
    }
  }

  /// The slow and careful way, for a step that holds an infinite value or NaN.
  void sum_seen_values(const QueryTile<T>& tile, std::int64_t first_key) {
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      if (kinds_[p] == PanelKind::skipped) std::fill_n(bits(p), tile.rows, 0);
      if (kinds_[p] == PanelKind::full && tile.bounded) std::fill_n(bits(p), tile.rows, low_bits(kPanelKeys<T>));
    }
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      sum_seen_values_row(num_panels_, bits(0) + i, kTileRows, scratch_.weights + i * kWeightStride,
                          head_.values + first_key * head_.value_stride, head_.value_stride,
                          tile.out + i * head_.value_stride);
    }
  }

  const HeadMask<T>& mask_;
  const PackedHead<T>& head_;
  const BlockScratch<T>& scratch_;
  Feed<T>& feed_;
  std::int64_t num_panels_ = 0;
  PanelKind kinds_[kStepPanels<T>];
};

template <class T>
void attend_block(const HeadMask<T>& mask, const PackedHead<T>& head, std::int64_t query, std::int64_t rows,
                  const T* queries, std::int64_t query_stride, const BlockScratch<T>& scratch, const BlockOutput<T>& to,
                  Feed<T>& feed) {
  const Tag<T> d;
  constexpr int kMaxTiles = kBlockQueries / kTileRows;
  std::fill_n(scratch.out, rows * head.value_stride, T(0));
  for (std::int64_t i = 0; i < rows; ++i) hn::Store(hn::Zero(d), d, scratch.sums + i * kLanes<T>);
  const std::int64_t last_limit = mask.limit(query + rows - 1), num_steps = ceil_div(last_limit, kStepKeys);

  QueryTile<T> tiles[kMaxTiles];
  const std::int64_t num_tiles = ceil_div(rows, kTileRows);
  for (std::int64_t t = 0; t < num_tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    QueryTile<T>& tile = tiles[t];
    tile = {query + row,
            std::min<std::int64_t>(kTileRows, rows - row),
            queries + row * query_stride,
            query_stride,
            scratch.out + row * head.value_stride,
            scratch.sums + row * kLanes<T>,
            scratch.references + row,
            false};
    const T query_norm = *std::max_element(scratch.query_norms + row, scratch.query_norms + row + tile.rows);
    tile.bounded = !mask.changes_scores();
    const std::int64_t steps = ceil_div(mask.limit(tile.query + tile.rows - 1), kStepKeys);
    for (std::int64_t s = 0; s < steps && tile.bounded; ++s) {
      tile.bounded = query_norm * head.key_norms[s] <= kBoundedScore<T> * kBoundedScore<T> &&
                     head.value_maxima[s] <= kBoundedValue<T> && head.value_minima[s] >= kLeastBoundedValue<T>;
    }
    std::fill_n(tile.references, tile.rows, tile.bounded ? T(0) : -kInfinity<T>);
  }

  HeadAttention<T> attention(mask, head, scratch, feed);
  const std::int64_t key_elements = head.head_dim + head.value_stride;
  const bool far = last_limit * key_elements * std::int64_t{sizeof(T)} > kNearBytes;
  for (std::int64_t s = 0; s < num_steps; ++s) {
    const int fed = feed.size();
    if (const std::int64_t next = (s + 1) * kStepKeys; far && next < last_limit) {
      const std::int64_t keys = std::min<std::int64_t>(kStepKeys, last_limit - next);
      feed.add({head.values + next * head.value_stride, keys, head.value_stride, head.value_stride});
      feed.add({head.panel(next), keys, head.head_dim, head.head_dim});
    }
    for (std::int64_t t = 0; t < num_tiles; ++t) attention.step(tiles[t], s * kStepKeys);
    feed.shrink(fed);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const T total = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, scratch.sums + i * kLanes<T>)));
    finish_row(total, scratch.out + i * head.value_stride, scratch.references[i], to, i);
  }
}

template void attend_block(const HeadMask<float>& mask, const PackedHead<float>& head, std::int64_t query,
                           std::int64_t rows, const float* queries, std::int64_t query_stride,
                           const BlockScratch<float>& scratch, const BlockOutput<float>& to, Feed<float>& feed);
#if HWY_HAVE_FLOAT64
template void attend_block(const HeadMask<double>& mask, const PackedHead<double>& head, std::int64_t query,
                           std::int64_t rows, const double* queries, std::int64_t query_stride,
                           const BlockScratch<double>& scratch, const BlockOutput<double>& to, Feed<double>& feed);
#endif

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
