// SPDX-License-Identifier: Apache-2.0
// Attention of a block of queries of one head over packed keys: steps of keys outside, strips of
// queries inside, so that a step's keys and values serve every strip from the nearest cache.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention/forward/block.cpp"
#include "kernels/shared/targets.h"
#include "kernels/shared/attention/score_changes-inl.h"
#include "kernels/shared/attention/softmax_state-inl.h"
#include "kernels/simd/attention/forward/block-inl.h"
#include "kernels/simd/attention/forward/seen_values-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// Keys and values of more bytes are in the third level cache when a block comes back to them: the next step of
/// them is fetched during each. (Of blocks of 96, 192 and 384 queries the first read them too often.)
constexpr std::int64_t kNearKeyBytes = 1 << 20;

/// Scores up to 2^40 (in powers of two, either sign) and values up to 2^60 need no reference at
/// all: weights, their sums over 2^24 keys and the products stay normal numbers.
template <class T>
constexpr T kBoundedScore = 40;
template <class T>
constexpr T kBoundedValue = static_cast<T>(std::int64_t{1} << 60);
/// Smaller values would be lost under weights of 2^-40, but not under the larger weights that a reference leaves.
template <class T>
constexpr T kLeastBoundedValue = std::numeric_limits<T>::min() * static_cast<T>(std::int64_t{1} << 46);

/// A strip of at most kStripRows queries.
template <class T>
struct QueryStrip {
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

/// One tile of scores or weights with the first `vectors` vectors of a panel.
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
constexpr int next_tile_vectors(std::int64_t left) {
  if (kValueVectors == 4 && left == 5) return 3;
  return static_cast<int>(std::min<std::int64_t>(left, kValueVectors));
}

/// A run of panels of a step: keys [begin, end) counted from the step's first.
struct KeyRun {
  std::int64_t begin, end;
  bool first, last;  ///< of the step
};

/// Attention of strips of queries of one head.
template <class T>
class HeadAttention {
 public:
  HeadAttention(const HeadMask<T>& mask, const PackedHead<T>& head, const AttentionScratch<T>& scratch,
                FetchQueue<T>& fetches)
      : mask_(mask), head_(head), scratch_(scratch), fetches_(fetches) {}

  /// Folds the keys of one step into the sums of `strip`.
  void add_step(const QueryStrip<T>& strip, std::int64_t first_key) {
    const Tag<T> d;
    const std::int64_t limit = mask_.limit(strip.query + strip.rows - 1);
    if (limit <= first_key) return;
    num_panels_ = ceil_div(std::min<std::int64_t>(limit - first_key, kStepKeys), kPanelKeys<T>);
    for (std::int64_t i = 0; i < strip.rows; ++i) hn::Store(hn::Zero(d), d, scratch_.step_sums + i * kLanes<T>);
    if (!strip.bounded) {
      for (std::int64_t i = 0; i < strip.rows; ++i)
        hn::Store(hn::Set(d, -kInfinity<T>), d, scratch_.maxima + i * kLanes<T>);
    }
    bool any = false;
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      kinds_[p] = score_panel(strip, first_key, p, limit);
      any = any || kinds_[p] != WordKind::skipped;
    }
    if (!any) return;
    if (!strip.bounded) finish_scores(strip, first_key, limit);
    for (std::int64_t i = 0; i < strip.rows; ++i) {
      T* sum = strip.sums + i * kLanes<T>;
      hn::Store(hn::Add(hn::Load(d, sum), hn::Load(d, scratch_.step_sums + i * kLanes<T>)), d, sum);
    }
    if (head_.value_maxima[first_key / kStepKeys] < kInfinity<T>) {
      sum_values(strip, first_key, limit);
    } else {
      sum_seen_values(strip, first_key);
    }
  }

 private:
  std::uint64_t* bits(std::int64_t panel) const { return scratch_.bits + panel * kStripRows; }

  WordKind score_panel(const QueryStrip<T>& strip, std::int64_t first_key, std::int64_t p, std::int64_t limit) {
    const std::int64_t key = first_key + p * kPanelKeys<T>;
    const WordKind kind = mask_.word_kind(strip.query, strip.rows, key);
    if (kind == WordKind::skipped) return kind;
    if (kind == WordKind::masked) {
      mask_.word_bits(strip.query, strip.rows, key, bits(p));
    } else if (!strip.bounded) {
      std::fill_n(bits(p), strip.rows, low_bits(kPanelKeys<T>));
    }
    T* weights = scratch_.weights + p * kPanelKeys<T>;
    const ScoreTile<T> scores{head_.head_dim,        strip.queries, strip.query_stride, head_.panel(key),
                              {head_.panel(key), 0}, weights,       scratch_.step_sums, bits(p)};
    if (strip.bounded) {
      run_scores(kind == WordKind::full ? ScoreKind::weights : ScoreKind::masked_weights, strip, key, scores);
      return kind;
    }
    run_scores(ScoreKind::raw, strip, key, scores);
    if (mask_.changes_scores()) change_scores(mask_, strip.query, strip.rows, key, weights, bits(p));
    update_maxima(strip.rows, vectors_of<T>(limit - key), weights, bits(p), scratch_.maxima);
    return kind;
  }

  /// Scores or weights of the strip with the panel at `key`, tile by tile.
  void run_scores(ScoreKind kind, const QueryStrip<T>& strip, std::int64_t key, ScoreTile<T> scores) {
    for (std::int64_t row = 0; row < strip.rows;) {
      const int rows = next_tile_rows(strip.rows - row);
      // Rows see different numbers of keys: stop at the last vector that any of these sees.
      const std::int64_t seen = mask_.limit(strip.query + row + rows - 1) - key;
      if (seen > 0) {
        scores.fetch = fetches_.take(head_.head_dim / 2, scores.panel);
        run_score_rows(rows, kind, vectors_of<T>(seen), scores);
      }
      scores.queries += rows * strip.query_stride;
      scores.weights += rows * kWeightStride;
      scores.sums += rows * kLanes<T>;
      scores.bits += rows;
      row += rows;
    }
  }

  /// The online softmax: references from the maxima of the step, then weights from scores.
  void finish_scores(const QueryStrip<T>& strip, std::int64_t first_key, std::int64_t limit) {
    const Tag<T> d;
    for (std::int64_t i = 0; i < strip.rows; ++i) {
      const T row_max = hn::GetLane(hn::MaxOfLanes(d, hn::Load(d, scratch_.maxima + i * kLanes<T>)));
      raise_reference<T>(row_max, head_.value_stride,
                         {strip.out + i * head_.value_stride, strip.sums + i * kLanes<T>, strip.references + i});
    }
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      if (kinds_[p] == WordKind::skipped) continue;
      weights_of_scores(strip.rows, vectors_of<T>(limit - first_key - p * kPanelKeys<T>),
                        scratch_.weights + p * kPanelKeys<T>, bits(p), strip.references, scratch_.step_sums);
    }
  }

  /// Sums values run by run of panels that are not skipped.
  void sum_values(const QueryStrip<T>& strip, std::int64_t first_key, std::int64_t limit) {
    std::int64_t last = num_panels_ - 1;
    while (kinds_[last] == WordKind::skipped) --last;
    bool first = true;
    for (std::int64_t p = 0; p <= last;) {
      if (kinds_[p] == WordKind::skipped) {
        ++p;
        continue;
      }
      std::int64_t q = p;
      while (q <= last && kinds_[q] != WordKind::skipped) ++q;
      const std::int64_t end = std::min(q * kPanelKeys<T>, limit - first_key);
      for (std::int64_t begin = p * kPanelKeys<T>; begin < end; begin += kValueKeys) {
        const std::int64_t stop = std::min(end, begin + kValueKeys);
        sum_run(strip, first_key, {begin, stop, first, q > last && stop == end});
        first = false;
      }
      p = q;
    }
  }

  void sum_run(const QueryStrip<T>& strip, std::int64_t first_key, const KeyRun& run) {
    const std::int64_t stride = head_.value_stride, vectors = stride / kLanes<T>;
    for (std::int64_t column = 0; column < vectors;) {
      const int group = next_tile_vectors(vectors - column);
      for (std::int64_t row = 0; row < strip.rows;) {
        const int rows = next_tile_rows(strip.rows - row);
        // Rows see different numbers of keys: stop at the last one that any of these sees.
        const std::int64_t seen = mask_.limit(strip.query + row + rows - 1) - first_key;
        const std::int64_t offset = row * stride + column * kLanes<T>;
        const ValueTile<T> values{std::max<std::int64_t>(0, std::min(run.end, seen) - run.begin),
                                  scratch_.weights + row * kWeightStride + run.begin,
                                  head_.values + (first_key + run.begin) * stride + column * kLanes<T>,
                                  stride,
                                  run.first ? nullptr : scratch_.partial + offset,
                                  run.last ? strip.out + offset : scratch_.partial + offset,
                                  run.last,
                                  {head_.values + first_key * stride, 0}};
        run_value_vectors<kValueVectors>(rows, group, values);
        row += rows;
      }
      column += group;
    }
  }

  /// The slow and careful way, for a step that holds an infinite value or NaN.
  void sum_seen_values(const QueryStrip<T>& strip, std::int64_t first_key) {
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      if (kinds_[p] == WordKind::skipped) std::fill_n(bits(p), strip.rows, 0);
      if (kinds_[p] == WordKind::full && strip.bounded) std::fill_n(bits(p), strip.rows, low_bits(kPanelKeys<T>));
    }
    for (std::int64_t i = 0; i < strip.rows; ++i) {
      sum_seen_values_row(num_panels_, bits(0) + i, kStripRows, scratch_.weights + i * kWeightStride,
                          head_.values + first_key * head_.value_stride, head_.value_stride,
                          strip.out + i * head_.value_stride);
    }
  }

  const HeadMask<T>& mask_;
  const PackedHead<T>& head_;
  const AttentionScratch<T>& scratch_;
  FetchQueue<T>& fetches_;
  std::int64_t num_panels_ = 0;
  WordKind kinds_[kStepPanels<T>];
};

template <class T>
void attend_block(const HeadMask<T>& mask, const PackedHead<T>& head, std::int64_t query, std::int64_t rows,
                  const T* queries, std::int64_t query_stride, const AttentionScratch<T>& scratch,
                  const BlockOutput<T>& to, FetchQueue<T>& fetches) {
  const Tag<T> d;
  constexpr int kMaxStrips = kBlockQueries / kStripRows;
  std::fill_n(scratch.out, rows * head.value_stride, T(0));
  for (std::int64_t i = 0; i < rows; ++i) hn::Store(hn::Zero(d), d, scratch.sums + i * kLanes<T>);
  const std::int64_t last_limit = mask.limit(query + rows - 1), num_steps = ceil_div(last_limit, kStepKeys);

  QueryStrip<T> strips[kMaxStrips];
  const std::int64_t num_strips = ceil_div(rows, kStripRows);
  for (std::int64_t t = 0; t < num_strips; ++t) {
    const std::int64_t row = t * kStripRows;
    QueryStrip<T>& strip = strips[t];
    strip = {query + row,
             std::min<std::int64_t>(kStripRows, rows - row),
             queries + row * query_stride,
             query_stride,
             scratch.out + row * head.value_stride,
             scratch.sums + row * kLanes<T>,
             scratch.references + row,
             false};
    const T query_norm = *std::max_element(scratch.query_norms + row, scratch.query_norms + row + strip.rows);
    strip.bounded = !mask.changes_scores();
    const std::int64_t steps = ceil_div(mask.limit(strip.query + strip.rows - 1), kStepKeys);
    for (std::int64_t s = 0; s < steps && strip.bounded; ++s) {
      strip.bounded = query_norm * head.key_norms[s] <= kBoundedScore<T> * kBoundedScore<T> &&
                      head.value_maxima[s] <= kBoundedValue<T> && head.value_minima[s] >= kLeastBoundedValue<T>;
    }
    std::fill_n(strip.references, strip.rows, strip.bounded ? T(0) : -kInfinity<T>);
  }

  HeadAttention<T> attention(mask, head, scratch, fetches);
  const std::int64_t key_elements = head.head_dim + head.value_stride;
  const bool far = last_limit * key_elements * std::int64_t{sizeof(T)} > kNearKeyBytes;
  for (std::int64_t s = 0; s < num_steps; ++s) {
    const int before = fetches.size();
    if (const std::int64_t next = (s + 1) * kStepKeys; far && next < last_limit) {
      const std::int64_t keys = std::min<std::int64_t>(kStepKeys, last_limit - next);
      fetches.add({head.values + next * head.value_stride, keys, head.value_stride, head.value_stride});
      fetches.add({head.panel(next), keys, head.head_dim, head.head_dim});
    }
    for (std::int64_t t = 0; t < num_strips; ++t) attention.add_step(strips[t], s * kStepKeys);
    fetches.shrink(before);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const T total = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, scratch.sums + i * kLanes<T>)));
    finish_row(total, scratch.out + i * head.value_stride, scratch.references[i], to, i);
  }
}

#define ENNEAD_INSTANTIATE(dtype, T, SumType)                                                                      \
  ENNEAD_VECTORS_##dtype(template void attend_block(const HeadMask<T>& mask, const PackedHead<T>& head,            \
                                                    std::int64_t query, std::int64_t rows, const T* queries,       \
                                                    std::int64_t query_stride, const AttentionScratch<T>& scratch, \
                                                    const BlockOutput<T>& to, FetchQueue<T>& fetches);)
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
