// SPDX-License-Identifier: Apache-2.0
// Attention of a block of queries of one head: the multiply unit makes the scores of one panel of keys while the vector
// units make weights of those of the panel before.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx/attention_block.cpp"
#include "kernels/simd/targets.h"
#include "kernels/amx/attention_block-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {
namespace {

/// As in simd/attention_block.cpp: scores up to 2^40 need no reference. Values are tame, which is less than 2^60. What
/// weights of 2^-40 make of smaller values than these would be lost, with and without a reference not the same.
constexpr float kMostBounded = 40;
constexpr std::uint32_t kLeastBounded = (127U - 60U) << 23;
/// Panels of 32 keys in a word of mask bits.
constexpr std::int64_t kHalvesPerWord = kPanelKeys<float> / kPanel;

/// Makes weights of the scores of a tile of queries with 32 keys, row by row, and splits them.
class WeightsWork {
 public:
  WeightsWork() = default;
  /// bits: a word per row, of which `shift` and up are these keys; nullptr: no key is masked.
  WeightsWork(const float* scores, char* weights, float* sums, const std::uint64_t* bits, int shift, std::int64_t turns)
      : scores_(scores),
        weights_(weights),
        sums_(sums),
        bits_(bits),
        shift_(shift),
        each_turn_(static_cast<int>(ceil_div(kPanel, std::max<std::int64_t>(1, turns)))),
        left_(kPanel) {}

  HWY_INLINE void turn() {
    if (left_ == 0) return;
    const std::int64_t rows = std::min<std::int64_t>(each_turn_, left_);
    for (std::int64_t i = 0; i < rows; ++i) make_row();
  }
  void finish() {
    while (left_ > 0) make_row();
  }

 private:
  HWY_INLINE void make_row() {
    const Tag<float> d;
    Floats low = exp2_bounded<float>(hn::Load(d, scores_)), high = exp2_bounded<float>(hn::Load(d, scores_ + kSide));
    const std::int64_t row = kPanel - left_;
    if (bits_) {
      low = hn::IfThenElseZero(mask_of_bits<float>(bits_[row] >> shift_, 0), low);
      high = hn::IfThenElseZero(mask_of_bits<float>(bits_[row] >> shift_, 1), high);
    }
    float* const sum = sums_ + row * kSide;
    hn::Store(hn::Add(hn::Add(hn::Load(d, sum), low), high), d, sum);
    store_pairs(split_down(low, high), weights_ + row_offset(row));
    scores_ += kWeightStride;
    --left_;
  }

  const float* scores_ = nullptr;
  char* weights_ = nullptr;
  float* sums_ = nullptr;
  const std::uint64_t* bits_ = nullptr;
  int shift_ = 0, each_turn_ = 0;
  std::int64_t left_ = 0;
};

/// A tile of at most 32 queries.
struct QueryTile {
  std::int64_t query, rows;
  const char* queries;
  float *out, *sums, *references;
  bool bounded;     ///< every score it sees is small: weights need no reference
  bool started;     ///< out holds sums
  char* sees_wild;  ///< per query
};

/// Attention of tiles of queries of one head.
class HeadAttention {
 public:
  HeadAttention(const HeadMask<float>& mask, const SplitHead& head, const AttentionScratch& scratch)
      : mask_(mask), head_(head), scratch_(scratch), depth_(depth_steps(head.head_dim)) {}

  /// Folds the keys of one step into the sums of `tile`.
  void step(QueryTile& tile, std::int64_t first_key) {
    const Tag<float> d;
    const std::int64_t limit = mask_.limit(tile.query + tile.rows - 1);
    if (limit <= first_key) return;
    const std::int64_t seen = std::min(limit - first_key, kSumKeys);
    num_halves_ = ceil_div(seen, kPanel);
    bool any = false;
    for (std::int64_t p = 0; p < ceil_div(seen, kPanelKeys<float>); ++p) {
      find_kind(tile, first_key, p);
      any = any || kinds_[p] != PanelKind::skipped;
    }
    if (!any) return;
    if (!head_.all_tame[first_key / kStepKeys]) find_wild(tile, first_key);
    for (std::int64_t i = 0; i < kPanel; ++i) hn::Store(hn::Zero(d), d, scratch_.step_sums + i * kSide);
    WeightsWork work;
    std::int64_t last = -1;  // the panel whose weights are still to be made
    for (std::int64_t h = 0; h < num_halves_; ++h) {
      if (kind(h) == PanelKind::skipped) continue;
      multiply_scores(tile, first_key, h, work);
      work.finish();
      if (mask_.changes_scores() && (h % kHalvesPerWord != 0 || h + 1 == num_halves_)) {
        const std::int64_t p = h / kHalvesPerWord, at = p * kPanelKeys<float>;
        change_scores(mask_, tile.query, tile.rows, first_key + at, scratch_.scores + at, bits(p));
        if (mask_.args->score_mod.function) configure_tiles();
      }
      if (tile.bounded) work = weights_work(h, kProducts * depth_);
      last = h;
    }
    if (!tile.bounded) finish_scores(tile, first_key, limit);
    sum_values(tile, first_key, last, work);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      float* const sum = tile.sums + i * kSide;
      hn::Store(hn::Add(hn::Load(d, sum), hn::Load(d, scratch_.step_sums + i * kSide)), d, sum);
    }
    tile.started = true;
  }

 private:
  PanelKind kind(std::int64_t half) const { return kinds_[half / kHalvesPerWord]; }
  std::uint64_t* bits(std::int64_t panel) const { return scratch_.bits + panel * kPanel; }

  void find_kind(const QueryTile& tile, std::int64_t first_key, std::int64_t p) {
    const std::int64_t key = first_key + p * kPanelKeys<float>;
    kinds_[p] = mask_.panel_kind(tile.query, tile.rows, key);
    if (kinds_[p] == PanelKind::masked) {
      mask_.panel_bits(tile.query, tile.rows, key, bits(p));
      std::fill(bits(p) + tile.rows, bits(p) + kPanel, 0);
    } else if (!tile.bounded) {
      std::fill_n(bits(p), kPanel, low_bits(kPanelKeys<float>));
    }
  }

  /// Marks the queries that see a wild key. A score_mod is not asked: it might decide by a score that is wrong.
  void find_wild(const QueryTile& tile, std::int64_t first_key) const {
    for (std::int64_t p = 0; p < ceil_div(num_halves_, kHalvesPerWord); ++p) {
      if (kinds_[p] == PanelKind::skipped) continue;
      const std::int64_t key = first_key + p * kPanelKeys<float>,
                         keys = std::min(kPanelKeys<float>, mask_.num_keys - key);
      std::uint64_t wild = 0;
      for (std::int64_t j = 0; j < keys; ++j) wild |= static_cast<std::uint64_t>(head_.tame[key + j] == 0) << j;
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        std::uint64_t seen = 0;
        mask_.panel_bits(tile.query + i, 1, key, &seen);
        seen &= wild;
        for (; seen != 0; seen &= seen - 1) {
          if (mask_.bias_allows(tile.query + i, key + std::countr_zero(seen))) tile.sees_wild[i] = 1;
        }
      }
    }
  }

  WeightsWork weights_work(std::int64_t h, std::int64_t turns) const {
    const bool masked = kind(h) == PanelKind::masked;
    return WeightsWork(scratch_.scores + h * kPanel, scratch_.weights + h * kStepBytes, scratch_.step_sums,
                       masked ? bits(h / kHalvesPerWord) : nullptr, static_cast<int>(h % kHalvesPerWord * kPanel),
                       turns);
  }

  template <int kRows, int kColumns>
  void multiply_score_tiles(const char* queries, const char* keys, float* scores, WeightsWork& work) const {
    zero_sums<kRows, kColumns>();
    multiply_panels<kRows, kColumns>(depth_, queries, keys, work);
    store_sums<kRows, kColumns>(scores, kWeightStride * std::int64_t{sizeof(float)});
  }

  /// Scores of the tile with 32 keys; only tiles of 16 x 16 that some row sees. Where none sees, what lies in memory is
  /// masked.
  void multiply_scores(const QueryTile& tile, std::int64_t first_key, std::int64_t h, WeightsWork& work) const {
    const std::int64_t key = first_key + h * kPanel;
    const char* const keys = head_.key_panel(key);
    float* const scores = scratch_.scores + h * kPanel;
    const std::int64_t seen = mask_.limit(tile.query + tile.rows - 1) - key;
    if (tile.rows <= kSide) {
      if (seen <= kSide) return multiply_score_tiles<1, 1>(tile.queries, keys, scores, work);
      return multiply_score_tiles<1, 2>(tile.queries, keys, scores, work);
    }
    const std::int64_t seen_above = mask_.limit(tile.query + kSide - 1) - key;
    if (seen_above > kSide) return multiply_score_tiles<2, 2>(tile.queries, keys, scores, work);
    if (seen <= kSide && seen_above > 0) return multiply_score_tiles<2, 1>(tile.queries, keys, scores, work);
    if (seen_above > 0) multiply_score_tiles<1, 1>(tile.queries, keys, scores, work);
    const char* const below = tile.queries + kTileBytes;
    float* const scores_below = scores + kSide * kWeightStride;
    if (seen <= kSide) return multiply_score_tiles<1, 1>(below, keys, scores_below, work);
    multiply_score_tiles<1, 2>(below, keys, scores_below, work);
  }

  /// The online softmax: references from the maxima of the step, then weights from scores.
  void finish_scores(const QueryTile& tile, std::int64_t first_key, std::int64_t limit) const {
    const Tag<float> d;
    const std::int64_t panels = ceil_div(num_halves_, kHalvesPerWord),
                       stride = AttentionScratch::out_stride(head_.value_dim);
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      hn::Store(hn::Set(d, -kInfinity<float>), d, scratch_.maxima + i * kSide);
    }
    const auto vectors = [&](std::int64_t p) { return vectors_of<float>(limit - first_key - p * kPanelKeys<float>); };
    for (std::int64_t p = 0; p < panels; ++p) {
      if (kinds_[p] == PanelKind::skipped) continue;
      update_maxima(tile.rows, vectors(p), scratch_.scores + p * kPanelKeys<float>, bits(p), scratch_.maxima);
    }
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const float row_max = hn::GetLane(hn::MaxOfLanes(d, hn::Load(d, scratch_.maxima + i * kSide)));
      raise_reference<float>(row_max, tile.started ? stride : 0,
                             {tile.out + i * stride, tile.sums + i * kSide, tile.references + i});
    }
    for (std::int64_t p = 0; p < panels; ++p) {
      if (kinds_[p] == PanelKind::skipped) continue;
      float* const scores = scratch_.scores + p * kPanelKeys<float>;
      weights_of_scores(tile.rows, vectors(p), scores, bits(p), tile.references, scratch_.step_sums);
    }
    for (std::int64_t h = 0; h < num_halves_; ++h) {
      for (std::int64_t i = 0; i < kPanel; ++i) {
        const float* const weights = scratch_.scores + i * kWeightStride + h * kPanel;
        Floats low = hn::Load(d, weights), high = hn::Load(d, weights + kSide);
        // Vectors that no row sees hold no weights.
        const std::uint64_t word = i < tile.rows ? bits(h / kHalvesPerWord)[i] >> (h % kHalvesPerWord * kPanel) : 0;
        low = hn::IfThenElseZero(mask_of_bits<float>(word, 0), low);
        high = hn::IfThenElseZero(mask_of_bits<float>(word, 1), high);
        store_pairs(split_down(low, high), scratch_.weights + h * kStepBytes + row_offset(i));
      }
    }
  }

  template <int kRows, int kColumns>
  void sum_value_tiles(const QueryTile& tile, std::int64_t first_key, std::int64_t panel, std::int64_t last,
                       WeightsWork& work) const {
    zero_sums<kRows, kColumns>();
    NoWork none;
    for (std::int64_t h = 0; h < num_halves_;) {
      if (kind(h) == PanelKind::skipped) {
        ++h;
        continue;
      }
      std::int64_t end = h;
      while (end < num_halves_ && kind(end) != PanelKind::skipped && end != last) ++end;
      const char* const weights = scratch_.weights + h * kStepBytes;
      const char* const values = head_.value_step(panel, first_key + h * kPanel);
      if (end > h) {
        multiply_panels<kRows, kColumns>(end - h, weights, values, work);
      } else {
        // The weights of the last panel are needed now.
        work.finish();
        end = h + 1;
        multiply_panels<kRows, kColumns>(1, weights, values, none);
      }
      h = end;
    }
    const std::int64_t stride = AttentionScratch::out_stride(head_.value_dim);
    float* const out = tile.out + panel * kPanel;
    if (!tile.started) return store_sums<kRows, kColumns>(out, stride * std::int64_t{sizeof(float)});
    store_sums<kRows, kColumns>(scratch_.partial, kPanel * std::int64_t{sizeof(float)});
    const Tag<float> d;
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      for (int j = 0; j < kColumns; ++j) {
        float* const at = out + i * stride + j * kSide;
        hn::Store(hn::Add(hn::Load(d, at), hn::Load(d, scratch_.partial + i * kPanel + j * kSide)), d, at);
      }
    }
  }

  void sum_values(const QueryTile& tile, std::int64_t first_key, std::int64_t last, WeightsWork& work) const {
    for (std::int64_t panel = 0; panel < panels_of(head_.value_dim); ++panel) {
      const bool wide = head_.value_dim - panel * kPanel > kSide;
      if (tile.rows > kSide) {
        wide ? sum_value_tiles<2, 2>(tile, first_key, panel, last, work)
             : sum_value_tiles<2, 1>(tile, first_key, panel, last, work);
      } else {
        wide ? sum_value_tiles<1, 2>(tile, first_key, panel, last, work)
             : sum_value_tiles<1, 1>(tile, first_key, panel, last, work);
      }
    }
    work.finish();
  }

  const HeadMask<float>& mask_;
  const SplitHead& head_;
  const AttentionScratch& scratch_;
  const std::int64_t depth_;
  std::int64_t num_halves_ = 0;
  PanelKind kinds_[kSumKeys / kPanelKeys<float>];
};

}  // namespace

void split_queries(const View<const float, 2>& queries, const AttentionScratch& scratch) {
  for (std::int64_t row = 0; row < queries.size(0); row += kPanel) {
    const std::int64_t rows = std::min(kPanel, queries.size(0) - row);
    const View<const float, 2> some = rows_side_by_side(queries, row, rows, scratch.buffer);
    const RowFacts facts = split_at_once(LeftRows(some.data, some.stride(0), rows, queries.size(1),
                                                  scratch.queries + row / kPanel * panel_bytes(queries.size(1))));
    std::copy_n(facts.tame, rows, scratch.tame + row);
    std::copy_n(facts.norms, rows, scratch.query_norms + row);
  }
}

bool attend_block(const HeadMask<float>& mask, const SplitHead& head, std::int64_t query, std::int64_t rows,
                  const AttentionScratch& scratch, const BlockOutput<float>& to) {
  const Tag<float> d;
  const std::int64_t stride = AttentionScratch::out_stride(head.value_dim);
  for (std::int64_t i = 0; i < kBlockQueries; ++i) hn::Store(hn::Zero(d), d, scratch.sums + i * kSide);
  QueryTile tiles[kBlockQueries / kPanel];
  const std::int64_t num_tiles = panels_of(rows), limit = mask.limit(query + rows - 1);
  for (std::int64_t t = 0; t < num_tiles; ++t) {
    const std::int64_t row = t * kPanel;
    QueryTile& tile = tiles[t];
    tile.query = query + row;
    tile.rows = std::min(kPanel, rows - row);
    tile.queries = scratch.queries + t * panel_bytes(head.head_dim);
    tile.out = scratch.out + row * stride;
    tile.sums = scratch.sums + row * kSide;
    tile.references = scratch.references + row;
    tile.started = false;
    tile.sees_wild = scratch.sees_wild + row;
    std::fill_n(tile.sees_wild, tile.rows, 0);
    float query_norm = 0;
    for (std::int64_t i = row; i < row + tile.rows; ++i) {
      if (scratch.tame[i]) query_norm = std::max(query_norm, scratch.query_norms[i]);
    }
    tile.bounded = !mask.changes_scores();
    const std::int64_t steps = ceil_div(mask.limit(tile.query + tile.rows - 1), kStepKeys);
    for (std::int64_t s = 0; s < steps; ++s) {
      tile.bounded = tile.bounded && query_norm * head.key_norms[s] <= kMostBounded * kMostBounded &&
                     head.least_values[s] >= kLeastBounded;
    }
    std::fill_n(tile.references, tile.rows, tile.bounded ? 0.0F : -kInfinity<float>);
  }
  HeadAttention attention(mask, head, scratch);
  for (std::int64_t key = 0; key < limit; key += kSumKeys) {
    for (std::int64_t t = 0; t < num_tiles; ++t) attention.step(tiles[t], key);
  }
  alignas(64) float totals[kBlockQueries];
  for (std::int64_t i = 0; i < rows; i += kSide) {
    hn::Store(sum_of_lanes(reinterpret_cast<const float(*)[kSide]>(scratch.sums + i * kSide)), d, totals + i);
  }
  bool all = true;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!is_computed(scratch, i)) {
      all = false;
      continue;
    }
    float* const out = scratch.out + i * stride;
    if (!tiles[i / kPanel].started) std::fill_n(out, stride, 0.0F);
    finish_row(totals[i], out, scratch.references[i], to, i);
  }
  if (to.streams) hwy::FlushStream();
  return !all;
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX
