// SPDX-License-Identifier: Apache-2.0
// The yardstick: products of tiles on registers only, counted as the products of float32 that six of them make.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_TILE_PEAK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_TILE_PEAK_INL_H_
#undef ENNEAD_KERNELS_AMX_TILE_PEAK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_TILE_PEAK_INL_H_
#endif
#include "kernels/amx/entries-inl.h"
#include "kernels/amx/tile/tile_registers-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

double peak_loop(std::int64_t iterations, float* sink) {
  // Each product adds 32 pairs of 1 * 1 to each sum.
  constexpr std::uint16_t kOne = 0x3f80;
  alignas(64) std::uint16_t ones[kRegisterBytes / 2];
  std::fill_n(ones, kRegisterBytes / 2, kOne);
  alignas(64) float sums[kPanel * kPanel];
  const TileRegisters registers;
  zero_sums<2, 2>();
  tile_load<4>(ones);
  tile_load<5>(ones);
  tile_load<6>(ones);
  tile_load<7>(ones);
  ENNEAD_NO_UNROLL
  for (std::int64_t i = 0; i < iterations; ++i) {
    ENNEAD_UNROLL
    for (int product = 0; product < kProducts; ++product) multiply_halves<2, 2>();
  }
  store_sums<2, 2>(sums, kPanel * std::int64_t{sizeof(float)});
  double sum = 0;
  for (float each : sums) sum += double{each};
  *sink = static_cast<float>(sum / static_cast<double>(kProducts * std::max<std::int64_t>(1, iterations)));
  return 2.0 * kPanel * kPanel * kSliceDepth * static_cast<double>(iterations);
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
