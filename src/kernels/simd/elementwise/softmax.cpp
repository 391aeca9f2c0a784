// SPDX-License-Identifier: Apache-2.0
// Softmax over rows.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/elementwise/softmax.cpp"
#include "kernels/shared/targets.h"
#include "kernels/simd/entries-inl.h"
#include "kernels/shared/vector/exp2-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// The larger one, or NaN when either is NaN.
template <class T>
HWY_INLINE Vec<T> max_or_nan(Vec<T> a, Vec<T> b) {
  // Where b is not smaller the comparison is false for NaN too: take b. A NaN already in a stays.
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}

template <class T>
HWY_INLINE T max_or_nan_of_lanes(Vec<T> v) {
  const Tag<T> d;
  const bool any_nan = !hn::AllFalse(d, hn::IsNaN(v));
  return any_nan ? std::numeric_limits<T>::quiet_NaN() : hn::GetLane(hn::MaxOfLanes(d, v));
}

/// One row; x and y may be the same.
template <class T>
HWY_NOINLINE void softmax_row(std::int64_t n, const T* x, T* y) {
  const Tag<T> d;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const std::int64_t whole = n / kLanes<T> * kLanes<T>;
  Vec<T> max = hn::Set(d, -kInfinity);
  for (std::int64_t j = 0; j < whole; j += kLanes<T>) max = max_or_nan<T>(max, hn::LoadU(d, x + j));
  // The tail is padded with its first element, which changes no maximum.
  HWY_ALIGN T tail[kLanes<T>];
  if (whole < n) {
    hn::Store(hn::Set(d, x[whole]), d, tail);
    std::memcpy(tail, x + whole, static_cast<std::size_t>(n - whole) * sizeof(T));
    max = max_or_nan<T>(max, hn::Load(d, tail));
  }
  const T row_max = max_or_nan_of_lanes<T>(max);
  if (row_max == -kInfinity) {
    std::fill(y, y + n, T(0));
    return;
  }
  const Vec<T> offset = hn::Set(d, row_max), log2e = hn::Set(d, kLog2E<T>);
  Vec<T> sum = hn::Zero(d);
  for (std::int64_t j = 0; j < whole; j += kLanes<T>) {
    const Vec<T> e = exp2<T>(hn::Mul(hn::Sub(hn::LoadU(d, x + j), offset), log2e));
    hn::StoreU(e, d, y + j);
    sum = hn::Add(sum, e);
  }
  if (whole < n) {
    hn::Store(exp2<T>(hn::Mul(hn::Sub(hn::Load(d, tail), offset), log2e)), d, tail);
    std::fill(tail + (n - whole), tail + kLanes<T>, T(0));
    sum = hn::Add(sum, hn::Load(d, tail));
  }
  const T inverse = T(1) / hn::GetLane(hn::SumOfLanes(d, sum));
  const Vec<T> inverses = hn::Set(d, inverse);
  for (std::int64_t j = 0; j < whole; j += kLanes<T>) hn::StoreU(hn::Mul(hn::LoadU(d, y + j), inverses), d, y + j);
  for (std::int64_t j = whole; j < n; ++j) y[j] = tail[j - whole] * inverse;
}

/// Rows whose elements do not lie side by side, a few columns of memory at a time through y's own
/// strides: rare, so plain loops around the same arithmetic.
template <class T>
HWY_NOINLINE void softmax_strided_row(View<const T, 1> x, View<T, 1> y) {
  const Tag<T> d;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const std::int64_t n = x.size(0);
  T row_max = -kInfinity;
  for (std::int64_t j = 0; j < n; ++j) {
    const T score = x(j);
    row_max = (row_max > score || row_max != row_max) ? row_max : score;
  }
  Vec<T> sum = hn::Zero(d);
  HWY_ALIGN T lanes[kLanes<T>];
  for (std::int64_t j0 = 0; j0 < n; j0 += kLanes<T>) {
    const std::int64_t count = std::min(kLanes<T>, n - j0);
    std::fill(lanes, lanes + kLanes<T>, -kInfinity);
    for (std::int64_t j = 0; j < count; ++j) lanes[j] = x(j0 + j) - row_max;
    const Vec<T> e = exp2<T>(hn::Mul(hn::Load(d, lanes), hn::Set(d, kLog2E<T>)));
    hn::Store(e, d, lanes);
    for (std::int64_t j = 0; j < count; ++j) y(j0 + j) = lanes[j];
    sum = hn::Add(sum, e);
  }
  const T inverse = T(1) / hn::GetLane(hn::SumOfLanes(d, sum));
  for (std::int64_t j = 0; j < n; ++j) y(j) = row_max == -kInfinity ? T(0) : y(j) * inverse;
}

template <class T>
void softmax(Executor& executor, const SoftmaxArgs<T>& args) {
  constexpr std::int64_t kElementsPerTask = 1 << 16;
  const std::int64_t rows = args.x.size(0), n = args.x.size(1);
  const std::int64_t rows_per_task = std::max<std::int64_t>(1, kElementsPerTask / std::max<std::int64_t>(1, n));
  const bool side_by_side = n <= 1 || (args.x.stride(1) == 1 && args.y.stride(1) == 1);
  executor.run(ceil_div(rows, rows_per_task), [&](std::int64_t task, int) HWY_ATTR {
    for (std::int64_t i = task * rows_per_task; i < std::min(rows, (task + 1) * rows_per_task); ++i) {
      if (side_by_side) {
        softmax_row(n, args.x.data + i * args.x.stride(0), args.y.data + i * args.y.stride(0));
      } else {
        softmax_strided_row(args.x[i], args.y[i]);
      }
    }
  });
}

#define ENNEAD_INSTANTIATE(dtype, T, SumType) \
  ENNEAD_VECTORS_##dtype(template void softmax(Executor& executor, const SoftmaxArgs<T>& args);)
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
