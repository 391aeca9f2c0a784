// SPDX-License-Identifier: Apache-2.0
// The yardstick: multiply-adds on registers only, enough independent chains to hide their latency.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/peak.cpp"
#include "kernels/simd/targets.h"
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kChains = 24;
#else
constexpr int kChains = 12;  // of 16 registers: two hold constants, one the product where there is no FMA
#endif

template <class T>
double peak_loop(std::int64_t iterations, T* sink) {
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

template double peak_loop(std::int64_t iterations, float* sink);
#if HWY_HAVE_FLOAT64
template double peak_loop(std::int64_t iterations, double* sink);
#endif

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
