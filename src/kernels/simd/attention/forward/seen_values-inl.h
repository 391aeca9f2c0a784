// SPDX-License-Identifier: Apache-2.0
// Values that may not be multiplied by a masked weight, because they may be infinite or NaN.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_SEEN_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_SEEN_VALUES_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_SEEN_VALUES_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_SEEN_VALUES_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
#include "kernels/simd/attention/forward/register_tiles-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// out += sum of the values a row sees, for values that may be infinite or NaN: a masked one is
/// skipped, not multiplied by 0. The order of the sum is that of sum_values_tile.
/// `bits` holds a word for each panel, `bits_stride` apart.
template <class T>
void sum_seen_values_row(std::int64_t num_panels, const std::uint64_t* bits, std::int64_t bits_stride, const T* weights,
                         const T* values, std::int64_t value_stride, T* out) {
  const Tag<T> d;
  for (std::int64_t j = 0; j < value_stride; j += kLanes<T>) {
    auto sum = hn::Zero(d);
    for (std::int64_t panel = 0; panel < num_panels; ++panel) {
      for (std::uint64_t word = bits[panel * bits_stride]; word != 0; word &= word - 1) {
        const std::int64_t key = panel * kPanelKeys<T> + std::countr_zero(word);
        sum = hn::MulAdd(hn::Set(d, weights[key]), hn::Load(d, values + key * value_stride + j), sum);
      }
    }
    hn::Store(hn::Add(hn::Load(d, out + j), sum), d, out + j);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
