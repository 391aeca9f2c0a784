// SPDX-License-Identifier: Apache-2.0
// Attention of a block of queries of one head: the multiply unit makes the scores of one panel of keys while the vector
// units make weights of those of the panel before.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx/attention/forward/block.cpp"
#include "kernels/amx/targets.h"
#include "kernels/amx/attention/forward/block-inl.h"
#include "kernels/amx/attention/forward/weights_work-inl.h"
#include "kernels/shared/attention/score_changes-inl.h"
#include "kernels/shared/attention/softmax_state-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {
namespace {

/// As for the vector kernels (kBoundedScore): scores up to 2^40 need no reference. Values are tame, which is less than
/// 2^60. Values below 2^-60 do need one: a weight of 2^-40 times such a value would be lost, while the weight that a
/// reference leaves larger keeps it, and the two ways must give the same bits.
constexpr float kMostBounded = 40;
constexpr std::uint32_t kLeastBounded = (127U - 60U) << 23;
/// A strip of at most 32 queries.
struct QueryStrip {
  std::int64_t query, rows;
  const char* queries;
  float *out, *sums, *references;
  bool bounded;     ///< every score it sees is small: weights need no reference
  bool started;     ///< out holds sums
  char* sees_wild;  ///< per query
};

/// Attention of strips of queries of one head.
class HeadAttention {
 public:
  HeadAttention(const HeadMask<float>& mask, const SplitHead& head, const AttentionScratch& scratch)
      : mask_(mask), head_(head), scratch_(scratch), depth_(depth_slices(head.head_dim)) {}

  /// Folds kSumKeys keys into the sums of `strip`.
  void add_keys(QueryStrip& strip, std::int64_t first_key) {
    const Tag<float> d;
    const std::int64_t limit = mask_.limit(strip.query + strip.rows - 1);
    if (limit <= first_key) return;
    const std::int64_t seen = std::min(limit - first_key, kSumKeys);
    num_panels_ = ceil_div(seen, kPanel);
    bool any = false;
    for (std::int64_t w = 0; w < ceil_div(seen, kWordKeys<float>); ++w) {
      find_kind(strip, first_key, w);
      any = any || kinds_[w] != WordKind::skipped;
    }
    if (!any) return;
    if (!head_.all_tame[first_key / kStepKeys]) find_wild(strip, first_key);
    for (std::int64_t i = 0; i < kPanel; ++i) hn::Store(hn::Zero(d), d, scratch_.key_sums + i * kSide);
    WeightsWork work;
    std::int64_t last = -1;  // the panel whose weights are still to be made
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      if (kind(p) == WordKind::skipped) continue;
      multiply_scores(strip, first_key, p, work);
      work.finish();
      if (mask_.changes_scores() && (p % kPanelsPerWord != 0 || p + 1 == num_panels_)) {
        const std::int64_t w = p / kPanelsPerWord, at = w * kWordKeys<float>;
        change_scores(mask_, strip.query, strip.rows, first_key + at, scratch_.scores + at, bits(w));
        if (mask_.args->score_mod.function) configure_tiles();
      }
      if (strip.bounded) work = weights_work(p, kProducts * depth_);
      last = p;
    }
    if (!strip.bounded) finish_scores(strip, first_key, limit);
    sum_values(strip, first_key, last, work);
    for (std::int64_t i = 0; i < strip.rows; ++i) {
      float* const sum = strip.sums + i * kSide;
      hn::Store(hn::Add(hn::Load(d, sum), hn::Load(d, scratch_.key_sums + i * kSide)), d, sum);
    }
    strip.started = true;
  }

 private:
  WordKind kind(std::int64_t panel) const { return kinds_[panel / kPanelsPerWord]; }
  std::uint64_t* bits(std::int64_t word) const { return scratch_.bits + word * kPanel; }

  void find_kind(const QueryStrip& strip, std::int64_t first_key, std::int64_t w) {
    const std::int64_t key = first_key + w * kWordKeys<float>;
    kinds_[w] = mask_.word_kind(strip.query, strip.rows, key);
    if (kinds_[w] == WordKind::masked) {
      mask_.word_bits(strip.query, strip.rows, key, bits(w));
      std::fill(bits(w) + strip.rows, bits(w) + kPanel, 0);
    } else if (!strip.bounded) {
      std::fill_n(bits(w), kPanel, low_bits(kWordKeys<float>));
    }
  }

  /// Marks the queries that see a wild key. A score_mod is not asked: it might decide by a score that is wrong.
  void find_wild(const QueryStrip& strip, std::int64_t first_key) const {
    for (std::int64_t w = 0; w < ceil_div(num_panels_, kPanelsPerWord); ++w) {
      if (kinds_[w] == WordKind::skipped) continue;
      const std::int64_t key = first_key + w * kWordKeys<float>,
                         keys = std::min(kWordKeys<float>, mask_.num_keys - key);
      std::uint64_t wild = 0;
      for (std::int64_t j = 0; j < keys; ++j) wild |= static_cast<std::uint64_t>(head_.tame[key + j] == 0) << j;
      for (std::int64_t i = 0; i < strip.rows; ++i) {
        std::uint64_t seen = 0;
        mask_.word_bits(strip.query + i, 1, key, &seen);
        seen &= wild;
        for (; seen != 0; seen &= seen - 1) {
          if (mask_.bias_allows(strip.query + i, key + std::countr_zero(seen))) strip.sees_wild[i] = 1;
        }
      }
    }
  }

  WeightsWork weights_work(std::int64_t p, std::int64_t turns) const {
    const bool masked = kind(p) == WordKind::masked;
    return WeightsWork(scratch_.scores + p * kPanel, scratch_.weights + p * kSliceBytes, scratch_.key_sums,
                       masked ? bits(p / kPanelsPerWord) : nullptr, static_cast<int>(p % kPanelsPerWord * kPanel),
                       turns);
  }

  template <int kRows, int kColumns>
  void multiply_score_tiles(const char* queries, const char* keys, float* scores, WeightsWork& work) const {
    zero_sums<kRows, kColumns>();
    multiply_panels<kRows, kColumns>(depth_, queries, keys, work);
    store_sums<kRows, kColumns>(scores, kWeightStride * std::int64_t{sizeof(float)});
  }

  /// Scores of the strip with 32 keys; only tiles of 16 x 16 that some row sees. Where none sees, what lies in memory
  /// is masked.
  void multiply_scores(const QueryStrip& strip, std::int64_t first_key, std::int64_t p, WeightsWork& work) const {
    const std::int64_t key = first_key + p * kPanel;
    const char* const keys = head_.key_panel(key);
    float* const scores = scratch_.scores + p * kPanel;
    const std::int64_t seen = mask_.limit(strip.query + strip.rows - 1) - key;
    if (strip.rows <= kSide) {
      if (seen <= kSide) return multiply_score_tiles<1, 1>(strip.queries, keys, scores, work);
      return multiply_score_tiles<1, 2>(strip.queries, keys, scores, work);
    }
    const std::int64_t seen_above = mask_.limit(strip.query + kSide - 1) - key;
    if (seen_above > kSide) return multiply_score_tiles<2, 2>(strip.queries, keys, scores, work);
    if (seen <= kSide && seen_above > 0) return multiply_score_tiles<2, 1>(strip.queries, keys, scores, work);
    if (seen_above > 0) multiply_score_tiles<1, 1>(strip.queries, keys, scores, work);
    const char* const below = strip.queries + kRegisterBytes;
    float* const scores_below = scores + kSide * kWeightStride;
    if (seen <= kSide) return multiply_score_tiles<1, 1>(below, keys, scores_below, work);
    multiply_score_tiles<1, 2>(below, keys, scores_below, work);
  }

  /// The online softmax: references from the maxima of these keys, then weights from scores.
  void finish_scores(const QueryStrip& strip, std::int64_t first_key, std::int64_t limit) const {
    const Tag<float> d;
    const std::int64_t words = ceil_div(num_panels_, kPanelsPerWord),
                       stride = AttentionScratch::out_stride(head_.value_dim);
    for (std::int64_t i = 0; i < strip.rows; ++i) {
      hn::Store(hn::Set(d, -kInfinity<float>), d, scratch_.maxima + i * kSide);
    }
    const auto vectors = [&](std::int64_t w) { return vectors_of<float>(limit - first_key - w * kWordKeys<float>); };
    for (std::int64_t w = 0; w < words; ++w) {
      if (kinds_[w] == WordKind::skipped) continue;
      update_maxima(strip.rows, vectors(w), scratch_.scores + w * kWordKeys<float>, bits(w), scratch_.maxima);
    }
    for (std::int64_t i = 0; i < strip.rows; ++i) {
      const float row_max = hn::GetLane(hn::MaxOfLanes(d, hn::Load(d, scratch_.maxima + i * kSide)));
      raise_reference<float>(row_max, strip.started ? stride : 0,
                             {strip.out + i * stride, strip.sums + i * kSide, strip.references + i});
    }
    for (std::int64_t w = 0; w < words; ++w) {
      if (kinds_[w] == WordKind::skipped) continue;
      float* const scores = scratch_.scores + w * kWordKeys<float>;
      weights_of_scores(strip.rows, vectors(w), scores, bits(w), strip.references, scratch_.key_sums);
    }
    for (std::int64_t p = 0; p < num_panels_; ++p) {
      for (std::int64_t i = 0; i < kPanel; ++i) {
        const float* const weights = scratch_.scores + i * kWeightStride + p * kPanel;
        Floats low = hn::Load(d, weights), high = hn::Load(d, weights + kSide);
        // Vectors that no row sees hold no weights.
        const std::uint64_t word = i < strip.rows ? bits(p / kPanelsPerWord)[i] >> (p % kPanelsPerWord * kPanel) : 0;
        low = hn::IfThenElseZero(mask_of_bits<float>(word, 0), low);
        high = hn::IfThenElseZero(mask_of_bits<float>(word, 1), high);
        store_pairs(split_down(low, high), scratch_.weights + p * kSliceBytes + row_offset(i));
      }
    }
  }

  template <int kRows, int kColumns>
  void sum_value_tiles(const QueryStrip& strip, std::int64_t first_key, std::int64_t panel, std::int64_t last,
                       WeightsWork& work) const {
    zero_sums<kRows, kColumns>();
    NoWork none;
    for (std::int64_t p = 0; p < num_panels_;) {
      if (kind(p) == WordKind::skipped) {
        ++p;
        continue;
      }
      std::int64_t end = p;
      while (end < num_panels_ && kind(end) != WordKind::skipped && end != last) ++end;
      const char* const weights = scratch_.weights + p * kSliceBytes;
      const char* const values = head_.value_slice(panel, first_key + p * kPanel);
      if (end > p) {
        multiply_panels<kRows, kColumns>(end - p, weights, values, work);
      } else {
        // The weights of the last panel are needed now.
        work.finish();
        end = p + 1;
        multiply_panels<kRows, kColumns>(1, weights, values, none);
      }
      p = end;
    }
    const std::int64_t stride = AttentionScratch::out_stride(head_.value_dim);
    float* const out = strip.out + panel * kPanel;
    if (!strip.started) return store_sums<kRows, kColumns>(out, stride * std::int64_t{sizeof(float)});
    store_sums<kRows, kColumns>(scratch_.partial, kPanel * std::int64_t{sizeof(float)});
    const Tag<float> d;
    for (std::int64_t i = 0; i < strip.rows; ++i) {
      for (int j = 0; j < kColumns; ++j) {
        float* const at = out + i * stride + j * kSide;
        hn::Store(hn::Add(hn::Load(d, at), hn::Load(d, scratch_.partial + i * kPanel + j * kSide)), d, at);
      }
    }
  }

  void sum_values(const QueryStrip& strip, std::int64_t first_key, std::int64_t last, WeightsWork& work) const {
    for (std::int64_t panel = 0; panel < panels_of(head_.value_dim); ++panel) {
      const bool wide = head_.value_dim - panel * kPanel > kSide;
      if (strip.rows > kSide) {
        wide ? sum_value_tiles<2, 2>(strip, first_key, panel, last, work)
             : sum_value_tiles<2, 1>(strip, first_key, panel, last, work);
      } else {
        wide ? sum_value_tiles<1, 2>(strip, first_key, panel, last, work)
             : sum_value_tiles<1, 1>(strip, first_key, panel, last, work);
      }
    }
    work.finish();
  }

  const HeadMask<float>& mask_;
  const SplitHead& head_;
  const AttentionScratch& scratch_;
  const std::int64_t depth_;
  std::int64_t num_panels_ = 0;
  WordKind kinds_[kSumKeys / kWordKeys<float>];
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
  QueryStrip strips[kBlockQueries / kPanel];
  const std::int64_t num_strips = panels_of(rows), limit = mask.limit(query + rows - 1);
  for (std::int64_t t = 0; t < num_strips; ++t) {
    const std::int64_t row = t * kPanel;
    QueryStrip& strip = strips[t];
    strip.query = query + row;
    strip.rows = std::min(kPanel, rows - row);
    strip.queries = scratch.queries + t * panel_bytes(head.head_dim);
    strip.out = scratch.out + row * stride;
    strip.sums = scratch.sums + row * kSide;
    strip.references = scratch.references + row;
    strip.started = false;
    strip.sees_wild = scratch.sees_wild + row;
    std::fill_n(strip.sees_wild, strip.rows, 0);
    float query_norm = 0;
    for (std::int64_t i = row; i < row + strip.rows; ++i) {
      if (scratch.tame[i]) query_norm = std::max(query_norm, scratch.query_norms[i]);
    }
    strip.bounded = !mask.changes_scores();
    const std::int64_t steps = ceil_div(mask.limit(strip.query + strip.rows - 1), kStepKeys);
    for (std::int64_t s = 0; s < steps; ++s) {
      strip.bounded = strip.bounded && query_norm * head.key_norms[s] <= kMostBounded * kMostBounded &&
                      head.least_values[s] >= kLeastBounded;
    }
    std::fill_n(strip.references, strip.rows, strip.bounded ? 0.0F : -kInfinity<float>);
  }
  HeadAttention attention(mask, head, scratch);
  for (std::int64_t key = 0; key < limit; key += kSumKeys) {
    for (std::int64_t t = 0; t < num_strips; ++t) attention.add_keys(strips[t], key);
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
    if (!strips[i / kPanel].started) std::fill_n(out, stride, 0.0F);
    finish_row(totals[i], out, scratch.references[i], to, i);
  }
  if (to.streams) hwy::FlushStream();
  return !all;
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX
