// SPDX-License-Identifier: Apache-2.0
// The yardstick: multiply-adds on registers only, enough independent chains to hide their latency.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_PEAK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_PEAK_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_PEAK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_PEAK_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
#include "kernels/simd/entries-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kChains = 24;
#else
constexpr int kChains = 12;  // of 16 registers: two hold constants, one the product where there is no FMA
#endif

template <class T>
double peak_loop(std::int64_t iterations, Sum<T>* sink) {
  const Tag<T> d;
  // Values the compiler cannot know; the chains converge to b / (1 - a) = 1.
  const Vec<T> a = hn::Set(d, T(0.75) + *sink * T(0)), b = hn::Set(d, T(0.25) + *sink * T(0));
  Vec<T> chains[kChains];
  ENNEAD_UNROLL
  for (int c = 0; c < kChains; ++c) chains[c] = hn::Set(d, T(c));
  ENNEAD_NO_UNROLL
  for (std::int64_t i = 0; i < iterations; ++i) {
    ENNEAD_UNROLL
    for (int c = 0; c < kChains; ++c) chains[c] = hn::MulAdd(chains[c], a, b);
  }
  Vec<T> sum = chains[0];
  ENNEAD_UNROLL
  for (int c = 1; c < kChains; ++c) sum = hn::Add(sum, chains[c]);
  *sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return 2.0 * kChains * static_cast<double>(kLanes<T>) * static_cast<double>(iterations);
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
