// SPDX-License-Identifier: Apache-2.0
// Keys, values and queries of a head as the multiply unit takes them.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_
#undef ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_
#endif
#include "kernels/amx/split-inl.h"
#include "kernels/simd/attention_block-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

constexpr std::int64_t panels_of(std::int64_t count) { return ceil_div(count, kPanel); }

/// Keys and values of one head, split. A key is wild when the multiply unit would not get it or its value right: then
/// its value is zero here, and rows that see it are computed in another way.
struct SplitHead {
  std::int64_t head_dim, value_dim;
  std::int64_t steps;  ///< of kStepKeys keys
  char* keys;          ///< panels of 32 keys, a right operand of depth head_dim
  char* values;        ///< panels of 32 value columns, a right operand whose depth is all keys
  float* key_norms;    ///< per step: the largest |k|^2 of keys that are not wild
  char* tame;          ///< per key
  char* all_tame;      ///< per step: whether all of its keys are

  static SplitHead take(std::byte*& memory, std::int64_t num_keys, std::int64_t head_dim, std::int64_t value_dim) {
    SplitHead head;
    head.head_dim = head_dim;
    head.value_dim = value_dim;
    head.steps = ceil_div(num_keys, kStepKeys);
    const std::int64_t keys = head.steps * kStepKeys;
    head.keys = take_scratch<char>(memory, panels_of(keys) * panel_bytes(head_dim));
    head.values = take_scratch<char>(memory, panels_of(value_dim) * panel_bytes(keys));
    head.key_norms = take_scratch<float>(memory, head.steps);
    head.tame = take_scratch<char>(memory, keys);
    head.all_tame = take_scratch<char>(memory, head.steps);
    return head;
  }

  const char* key_panel(std::int64_t key) const { return keys + key / kPanel * panel_bytes(head_dim); }
  /// The step of depth that starts with `key`, in a panel of value columns.
  char* value_step(std::int64_t panel, std::int64_t key) const {
    return values + panel * panel_bytes(steps * kStepKeys) + key / kStepDepth * kStepBytes;
  }
};

/// What is known of 32 rows: whether the multiply unit gets them right, and |row|^2.
struct RowFacts {
  char tame[kPanel];
  alignas(64) float norms[kPanel];
};

/// The sum of the lanes of each of 16 vectors.
HWY_INLINE Floats sum_squares(const float (*vectors)[kSide]) {
  const Tag<float> d;
  Floats sums[kSide];
  for (int i = 0; i < kSide; ++i) sums[i] = hn::Load(d, vectors[i]);
  transpose_square<float>(sums);
  for (int left = kSide / 2; left > 0; left /= 2) {
    for (int i = 0; i < left; ++i) sums[i] = hn::Add(sums[i], sums[i + left]);
  }
  return sums[0];
}

/// `count` <= 32 rows of `depth` elements side by side as a panel of the left operand.
inline void split_left_rows(const float* from, std::int64_t row_stride, std::int64_t count, std::int64_t depth,
                            char* to, RowFacts& facts) {
  const Tag<float> d;
  alignas(64) float squares[kPanel][kSide];
  const std::int64_t end = count > kSide ? kPanel : kSide;
  for (std::int64_t row = 0; row < end; ++row) {
    const float* const at = from + row * row_stride;
    Bits most = hn::Zero(BitsTag());
    Floats sum = hn::Zero(d);
    for (std::int64_t k = 0; k < depth; k += kStepDepth) {
      const std::int64_t left = row < count ? depth - k : 0;
      const Floats low = load_first(at + k, left), high = load_first(at + k + kSide, left - kSide);
      most = hn::Max(most, hn::Max(magnitudes(low), magnitudes(high)));
      sum = hn::MulAdd(low, low, hn::MulAdd(high, high, sum));
      store_pairs(split(low, high), to + k / kStepDepth * kStepBytes + row_offset(row));
    }
    hn::Store(sum, d, squares[row]);
    facts.tame[row] = is_tame(most) ? 1 : 0;
  }
  for (std::int64_t half = 0; half < end; half += kSide) hn::Store(sum_squares(squares + half), d, facts.norms + half);
}

/// The same as columns of a panel of the right operand, times factor.
inline void split_right_rows(const float* from, std::int64_t row_stride, std::int64_t count, std::int64_t depth,
                             float factor, char* to, RowFacts& facts) {
  const Tag<float> d;
  const BitsTag bits;
  const Floats scale = hn::Set(d, factor);
  for (std::int64_t half = 0; half < count; half += kSide) {
    Bits most = hn::Zero(bits);
    Floats norms = hn::Zero(d);
    for (std::int64_t k = 0; k < depth; k += kStepDepth) {
      HalfStep step;
      step.load_along(from + half * row_stride + k, row_stride, std::min<std::int64_t>(kSide, count - half),
                      std::min(kStepDepth, depth - k));
      step.turn();
      char* const at = to + k / kStepDepth * kStepBytes + row_offset(half);
      ENNEAD_NO_UNROLL
      for (int i = 0; i < kSide; ++i) {
        const Floats low = hn::Mul(step.low[i], scale), high = hn::Mul(step.high[i], scale);
        most = hn::Max(most, hn::Max(magnitudes(low), magnitudes(high)));
        norms = hn::MulAdd(low, low, hn::MulAdd(high, high, norms));
        store_pairs(split(low, high), at + i * 64);
      }
    }
    hn::Store(norms, d, facts.norms + half);
    alignas(64) std::uint32_t magnitudes_of[kSide];
    hn::Store(most, bits, magnitudes_of);
    for (std::int64_t i = 0; i < kSide; ++i) facts.tame[half + i] = is_tame(magnitudes_of[i]) ? 1 : 0;
  }
}

/// Rows [row0, row0 + count) with their elements side by side: where they lie, or copied to `buffer`.
inline View<const float, 2> rows_side_by_side(const View<const float, 2>& rows, std::int64_t row0, std::int64_t count,
                                              float* buffer) {
  const std::int64_t depth = rows.size(1);
  const View<const float, 2> some{rows.data + row0 * rows.stride(0), {count, depth}, rows.strides};
  if (rows.stride(1) == 1) return some;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < depth; ++j) buffer[i * depth + j] = some(i, j);
  }
  return {buffer, {count, depth}, {depth, 1}};
}

/// Splits keys [key, key + 32) of a head, as far as there are any, and their values. k: [keys, head_dim],
/// v: [keys, value_dim]; both start with key `origin`. Keys come times `factor`. The panels of a step come in order.
/// buffer: [32][the larger of head_dim and value_dim].
inline void split_keys(const View<const float, 2>& k, float factor, const View<const float, 2>& v, std::int64_t origin,
                       std::int64_t key, float* buffer, const SplitHead& head) {
  const std::int64_t at = key - origin, count = std::clamp<std::int64_t>(k.size(0) - at, 0, kPanel);
  float& norm = head.key_norms[key / kStepKeys];
  char& all_tame = head.all_tame[key / kStepKeys];
  if (key % kStepKeys == 0) {
    norm = 0;
    all_tame = 1;
  }
  RowFacts facts;
  const View<const float, 2> keys = rows_side_by_side(k, at, count, buffer);
  split_right_rows(keys.data, keys.stride(0), count, head.head_dim, factor,
                   head.keys + key / kPanel * panel_bytes(head.head_dim), facts);
  LineMaxima value_maxima;
  find_maxima(v, at, count, value_maxima);
  bool all = true;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool tame = facts.tame[i] && value_maxima.is_tame_line(i);
    head.tame[key + i] = tame ? 1 : 0;
    all = all && tame;
    if (tame) norm = std::max(norm, facts.norms[i]);
  }

  if (!all) all_tame = 0;
  View<const float, 2> values{v.data + at * v.stride(0), {count, v.size(1)}, v.strides};
  if (!all) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < head.value_dim; ++j) {
        buffer[i * head.value_dim + j] = head.tame[key + i] ? values(i, j) : 0.0F;
      }
    }
    values = {buffer, {count, head.value_dim}, {head.value_dim, 1}};
  }
  const View<const float, 2> columns{values.data, {head.value_dim, count}, {values.stride(1), values.stride(0)}};
  for (std::int64_t panel = 0; panel < panels_of(head.value_dim); ++panel) {
    const std::int64_t width = std::min(kPanel, head.value_dim - panel * kPanel);
    split_step<Side::right>(columns, panel * kPanel, width, 0, 1.0F, head.value_step(panel, key));
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
