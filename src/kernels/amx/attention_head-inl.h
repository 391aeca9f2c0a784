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
  std::int64_t steps;        ///< of kStepKeys keys
  char* keys;                ///< panels of 32 keys, a right operand of depth head_dim
  char* values;              ///< panels of 32 value columns, a right operand whose depth is all keys
  float* key_norms;          ///< per step: the largest |k|^2 of keys that are not wild
  char* tame;                ///< per key
  std::int64_t* first_wild;  ///< the first wild key so far; if there is none, more than there are keys
  float* tame_values;        ///< [32][value_dim]: values of a panel of keys without the wild ones

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
    head.first_wild = take_scratch<std::int64_t>(memory, 1);
    head.tame_values = take_scratch<float>(memory, kPanel * value_dim);
    return head;
  }

  const char* key_panel(std::int64_t key) const { return keys + key / kPanel * panel_bytes(head_dim); }
  /// The step of depth that starts with `key`, in a panel of value columns.
  char* value_step(std::int64_t panel, std::int64_t key) const {
    return values + panel * panel_bytes(steps * kStepKeys) + key / kStepDepth * kStepBytes;
  }
  void forget() const { *first_wild = std::numeric_limits<std::int64_t>::max(); }
};

/// |x|^2 of a row with any stride.
inline float squared_norm(const float* row, std::int64_t stride, std::int64_t count) {
  if (stride == 1) return row_norm(row, count);
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += row[i * stride] * row[i * stride];
  return nan_to_infinity(sum);
}

/// Splits keys [key, key + 32) of a head, as far as there are any, and their values. k: [keys, head_dim],
/// v: [keys, value_dim]; both start with key `origin`. Keys come times `factor`.
inline void split_keys(const View<const float, 2>& k, float factor, const View<const float, 2>& v, std::int64_t origin,
                       std::int64_t key, const SplitHead& head) {
  const std::int64_t at = key - origin, count = std::clamp<std::int64_t>(k.size(0) - at, 0, kPanel);
  float& norm = head.key_norms[key / kStepKeys];
  if (key % kStepKeys == 0) norm = 0;
  LineMaxima key_maxima, value_maxima;
  find_maxima(k, at, count, key_maxima);
  find_maxima(v, at, count, value_maxima);
  const auto times_factor = [&](std::uint32_t magnitude) {
    return std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * std::abs(factor));
  };
  bool all = true;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool tame = is_tame(times_factor(key_maxima.of(i))) && is_tame(value_maxima.of(i));
    head.tame[key + i] = tame ? 1 : 0;
    all = all && tame;
    if (tame) {
      norm = std::max(norm, factor * factor * squared_norm(k.data + (at + i) * k.stride(0), k.stride(1), k.size(1)));
    } else {
      *head.first_wild = std::min(*head.first_wild, key + i);
    }
  }
  split_panel<Side::right>(k, at, count, 0, head.head_dim, factor,
                           head.keys + key / kPanel * panel_bytes(head.head_dim));

  View<const float, 2> values{v.data + at * v.stride(0), {count, v.size(1)}, v.strides};
  if (!all) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < head.value_dim; ++j) {
        head.tame_values[i * head.value_dim + j] = head.tame[key + i] ? values(i, j) : 0.0F;
      }
    }
    values = {head.tame_values, {count, head.value_dim}, {head.value_dim, 1}};
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
