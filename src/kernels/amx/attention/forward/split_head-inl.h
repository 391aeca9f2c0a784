// SPDX-License-Identifier: Apache-2.0
// Keys, values and queries of a head as the multiply unit takes them.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_SPLIT_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_SPLIT_HEAD_INL_H_
#undef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_SPLIT_HEAD_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_SPLIT_HEAD_INL_H_
#endif
#include "kernels/amx/split/row_panels-inl.h"
#include "kernels/shared/attention/geometry-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

// A panel of keys is a slice of the depth of the values.
static_assert(kPanel == kSliceDepth && kStepKeys % kPanel == 0);

/// Keys and values of one head, split. A key is wild when the multiply unit would not get it or its value right: then
/// its value is zero here, and rows that see it are computed in another way.
struct SplitHead {
  std::int64_t head_dim, value_dim;
  std::int64_t steps;           ///< of kStepKeys keys
  char* keys;                   ///< panels of 32 keys, a right operand of depth head_dim
  char* values;                 ///< panels of 32 value columns, a right operand whose depth is all keys
  float* key_norms;             ///< per step: the largest |k|^2 of keys that are not wild
  std::uint32_t* least_values;  ///< per step: the smallest magnitude of a value that is not 0
  char* tame;                   ///< per key
  char* all_tame;               ///< per step: whether all of its keys are

  static SplitHead take(std::byte*& memory, std::int64_t num_keys, std::int64_t head_dim, std::int64_t value_dim) {
    SplitHead head;
    head.head_dim = head_dim;
    head.value_dim = value_dim;
    head.steps = ceil_div(num_keys, kStepKeys);
    const std::int64_t keys = head.steps * kStepKeys;
    head.keys = take_scratch<char>(memory, panels_of(keys) * panel_bytes(head_dim));
    head.values = take_scratch<char>(memory, panels_of(value_dim) * panel_bytes(keys));
    head.key_norms = take_scratch<float>(memory, head.steps);
    head.least_values = take_scratch<std::uint32_t>(memory, head.steps);
    head.tame = take_scratch<char>(memory, keys);
    head.all_tame = take_scratch<char>(memory, head.steps);
    return head;
  }

  /// Facts of a step of keys start with its first panel.
  void start_step(std::int64_t key) const {
    if (key % kStepKeys != 0) return;
    key_norms[key / kStepKeys] = 0;
    least_values[key / kStepKeys] = kNoMagnitude;
    all_tame[key / kStepKeys] = 1;
  }
  /// Notes `count` <= 32 keys that are not wild.
  void add_tame_keys(std::int64_t key, std::int64_t count, const float* norms, std::uint32_t least_value) const {
    start_step(key);
    std::uint32_t& least = least_values[key / kStepKeys];
    least = std::min(least, least_value);
    std::fill_n(tame + key, count, 1);
    float& norm = key_norms[key / kStepKeys];
    norm = std::max(norm, *std::max_element(norms, norms + count));
  }

  const char* key_panel(std::int64_t key) const { return keys + key / kPanel * panel_bytes(head_dim); }
  /// The slice of depth that starts with `key`, in a panel of value columns.
  char* value_slice(std::int64_t panel, std::int64_t key) const {
    return values + panel * panel_bytes(steps * kStepKeys) + key / kSliceDepth * kSliceBytes;
  }
};

/// Splits keys [key, key + 32) of a head, as far as there are any, and their values. k: [keys, head_dim],
/// v: [keys, value_dim]; both start with key `origin`. Keys come times `factor`. The panels of a step come in order.
/// buffer: [32][the larger of head_dim and value_dim].
inline void split_keys(const View<const float, 2>& k, float factor, const View<const float, 2>& v, std::int64_t origin,
                       std::int64_t key, float* buffer, const SplitHead& head) {
  const std::int64_t at = key - origin, count = std::clamp<std::int64_t>(k.size(0) - at, 0, kPanel);
  head.start_step(key);
  float& norm = head.key_norms[key / kStepKeys];
  std::uint32_t& least_value = head.least_values[key / kStepKeys];
  const View<const float, 2> keys = rows_side_by_side(k, at, count, buffer);
  const RowFacts facts = split_at_once(RightRows(keys.data, keys.stride(0), count, head.head_dim, factor,
                                                 head.keys + key / kPanel * panel_bytes(head.head_dim)));
  LineMaxima value_maxima;
  find_maxima(v, at, count, value_maxima);
  least_value = std::min(least_value, value_maxima.least());
  bool all = true;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool tame = facts.tame[i] && value_maxima.is_tame_line(i);
    head.tame[key + i] = tame ? 1 : 0;
    all = all && tame;
    if (tame) norm = std::max(norm, facts.norms[i]);
  }

  if (!all) head.all_tame[key / kStepKeys] = 0;
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
    split_slice<Side::right>(columns, panel * kPanel, width, 0, 1.0F, head.value_slice(panel, key));
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
