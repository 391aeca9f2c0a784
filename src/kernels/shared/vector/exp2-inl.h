// SPDX-License-Identifier: Apache-2.0
// 2^x for softmax: x is at most a little above 0.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_VECTOR_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_VECTOR_EXP2_INL_H_
#undef ENNEAD_KERNELS_SHARED_VECTOR_EXP2_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_VECTOR_EXP2_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// log2(e): e^x is 2^(kLog2E x).
template <class T>
constexpr T kLog2E = T(1.4426950408889634074);

template <class T>
struct Exp2Constants;

/// Coefficients of r, r^2, ... of 2^r on [-1/2, 1/2]: least relative error with 2^0 exact, found by
/// Remez exchange, each rounded before the next was fitted. Relative error 9.8e-8.
template <>
struct Exp2Constants<float> {
  static constexpr float kPolynomial[] = {0.693147004f, 0.240222245f, 0.0555065088f, 0.00967260543f, 0.00133029115f};
  /// 1.5 * 2^23 + 127: added to x it leaves round(x) + 127, the biased exponent, in the low bits.
  static constexpr float kMagic = 12583039.0f;
  static constexpr float kSmallest = -126.0f;
  static constexpr int kMantissaBits = 23;
};

/// As above, all rounded together. Relative error 2.8e-17 before rounding.
template <>
struct Exp2Constants<double> {
  static constexpr double kPolynomial[] = {0.69314718055994529,    0.2402265069591013,     0.055504108664820084,
                                           0.0096181291075941207,  0.0013333558146774649,  0.00015403530457111362,
                                           1.525273349309594e-05,  1.3215435282680663e-06, 1.0178199586447909e-07,
                                           7.0737831844583166e-09, 4.4347689286262757e-10};
  static constexpr double kMagic = 6755399441056767.0;
  static constexpr double kSmallest = -1022.0;
  static constexpr int kMantissaBits = 52;
};

/// 2^x for x < 100. Exactly 0 below the smallest normal number (and for -inf): denormals would slow
/// every product that follows. NaN stays NaN.
template <class T>
HWY_INLINE Vec<T> exp2(Vec<T> x) {
  using Constants = Exp2Constants<T>;
  constexpr int kDegree = static_cast<int>(std::size(Constants::kPolynomial));
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> bits;
  const Vec<T> magic = hn::Set(d, Constants::kMagic);
  const Vec<T> shifted = hn::Add(x, magic);
  const Vec<T> r = hn::Sub(x, hn::Sub(shifted, magic));
  Vec<T> p = hn::Set(d, Constants::kPolynomial[kDegree - 1]);
  ENNEAD_UNROLL
  for (int i = kDegree - 2; i >= 0; --i) p = hn::MulAdd(p, r, hn::Set(d, Constants::kPolynomial[i]));
  p = hn::MulAdd(p, r, hn::Set(d, T(1)));
  // A product, not an integer addition to the exponent: NaN has to survive it.
  const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<Constants::kMantissaBits>(hn::BitCast(bits, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, Constants::kSmallest)), hn::Mul(p, power));
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
