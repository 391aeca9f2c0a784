// SPDX-License-Identifier: Apache-2.0
// 2^t for vectors of attention scores. Scores are split into an integer and a fraction, so that a
// reference subtracted from the integer part scales a weight by an exact power of two: the bits of
// a normalised row do not depend on which reference was in use.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_EXP2_INL_H_
#undef ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_EXP2_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_EXP2_INL_H_
#endif
#include "kernels/shared/vector/exp2-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

// Once per target, and a build for one processor need not begin with the lowest.
#undef ENNEAD_HAS_SCALEF
#if HWY_TARGET == HWY_AVX3
#define ENNEAD_HAS_SCALEF 1  // vreduceps and vscalefps: an instruction each in place of three
#else
#define ENNEAD_HAS_SCALEF 0
#endif

/// Weights this far below the reference (2^-100) are exactly 0: they could not change a sum, and
/// their products would be denormal, which is slow.
constexpr int kSmallestExponent = -100;

#if ENNEAD_HAS_SCALEF
/// Coefficients of f, f^2, ... of 2^f on [0, 1), by Remez exchange with 2^0 exact. Relative error 8.3e-8.
template <class T>
struct Exp2FloorConstants;
template <>
struct Exp2FloorConstants<float> {
  static constexpr float kPolynomial[] = {0.693151312f, 0.240164449f, 0.0557999146f, 0.00901702866f, 0.00186713072f};
};
/// Relative error 3.1e-18 before rounding.
template <>
struct Exp2FloorConstants<double> {
  static constexpr double kPolynomial[] = {0.69314718055994629,    0.2402265069590547,     0.055504108665711205,
                                           0.0096181290987922153,  0.0013333558661591232,  0.00015403511446129622,
                                           1.5253190254081687e-05, 1.3208193448983917e-06, 1.0254457616423921e-07,
                                           6.5544565957811831e-09, 6.2724347620611388e-10};
};

/// t - floor(t).
HWY_INLINE Vec<float> fraction_of(Vec<float> t) { return Vec<float>{_mm512_reduce_ps(t.raw, 1)}; }
HWY_INLINE Vec<double> fraction_of(Vec<double> t) { return Vec<double>{_mm512_reduce_pd(t.raw, 1)}; }
/// x * 2^floor(t).
HWY_INLINE Vec<float> times_power(Vec<float> x, Vec<float> t) { return Vec<float>{_mm512_scalef_ps(x.raw, t.raw)}; }
HWY_INLINE Vec<double> times_power(Vec<double> x, Vec<double> t) { return Vec<double>{_mm512_scalef_pd(x.raw, t.raw)}; }
template <class T>
using Exp2Polynomial = Exp2FloorConstants<T>;
#else
template <class T>
using Exp2Polynomial = Exp2Constants<T>;
#endif

template <class T>
HWY_INLINE Vec<T> exp2_of_fraction(Vec<T> fraction) {
  constexpr int kDegree = static_cast<int>(std::size(Exp2Polynomial<T>::kPolynomial));
  const Tag<T> d;
  Vec<T> p = hn::Set(d, Exp2Polynomial<T>::kPolynomial[kDegree - 1]);
  ENNEAD_UNROLL
  for (int i = kDegree - 2; i >= 0; --i) p = hn::MulAdd(p, fraction, hn::Set(d, Exp2Polynomial<T>::kPolynomial[i]));
  return hn::MulAdd(p, fraction, hn::Set(d, T(1)));
}

/// 2^t for |t| <= 100 or so: no saturation, for scores known to be bounded.
template <class T>
HWY_INLINE Vec<T> exp2_bounded(Vec<T> t) {
#if ENNEAD_HAS_SCALEF
  return times_power(exp2_of_fraction<T>(fraction_of(t)), t);
#else
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T> > di;
  const Vec<T> magic = hn::Set(d, Exp2Constants<T>::kMagic);
  const Vec<T> shifted = hn::Add(t, magic);
  const Vec<T> fraction = hn::Sub(t, hn::Sub(shifted, magic));
  const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<Exp2Constants<T>::kMantissaBits>(hn::BitCast(di, shifted)));
  return hn::Mul(exp2_of_fraction<T>(fraction), power);
#endif
}

/// 2^(t - reference) for any t; `reference` is an integer not much below the largest t. NaN stays NaN.
template <class T>
HWY_INLINE Vec<T> exp2_relative(Vec<T> t, Vec<T> reference) {
  const Tag<T> d;
#if ENNEAD_HAS_SCALEF
  const Vec<T> fraction = fraction_of(t);
  const Vec<T> exponent = hn::Sub(hn::Sub(t, fraction), reference);
#else
  const Vec<T> whole = hn::Round(t);
  const Vec<T> fraction = hn::Sub(t, whole);
  const Vec<T> exponent = hn::Sub(whole, reference);
#endif
  // Small exponents leave before a power is made of them: making a denormal is slow too.
  const auto small = hn::Lt(exponent, hn::Set(d, T(kSmallestExponent)));
  const Vec<T> kept = hn::IfThenZeroElse(small, exponent);
#if ENNEAD_HAS_SCALEF
  const Vec<T> weight = times_power(exp2_of_fraction<T>(fraction), kept);
#else
  const hn::RebindToSigned<Tag<T> > di;
  const Vec<T> shifted = hn::Add(kept, hn::Set(d, Exp2Constants<T>::kMagic));
  const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<Exp2Constants<T>::kMantissaBits>(hn::BitCast(di, shifted)));
  const Vec<T> weight = hn::Mul(exp2_of_fraction<T>(fraction), power);
#endif
  return hn::IfThenZeroElse(small, weight);
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
