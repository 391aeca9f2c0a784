// SPDX-License-Identifier: Apache-2.0
// Where the results of attention go, and the last step of each row.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_ATTENTION_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_ATTENTION_OUTPUT_INL_H_
#undef ENNEAD_KERNELS_SHARED_ATTENTION_OUTPUT_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_ATTENTION_OUTPUT_INL_H_
#endif
#include "kernels/shared/attention/masks-inl.h"
#include "kernels/shared/vector/exp2-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Where a block's results go.
template <class T>
struct BlockOutput {
  T* out;
  std::int64_t row_stride, column_stride, value_dim;
  Sum<T>* lse;  ///< or nullptr
  std::int64_t lse_stride;
  /// Whole lines are written past the caches, for results that are read much later. Needs side by side elements and
  /// rows that start with a line.
  bool streams = false;
};

/// log(total * 2^reference), the same whatever power of two moved between the two.
template <class T>
double log_sum(T total, T reference) {
  constexpr double kLn2 = 0.6931471805599453;
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(total), &exponent);
  return (static_cast<double>(reference) + exponent + std::log2(mantissa)) * kLn2;
}

/// One row's sum of weighted values, divided by the total of its weights and written.
template <class T>
void finish_row(T total, const T* weighted, T reference, const BlockOutput<T>& to, std::int64_t row) {
  const Tag<T> d;
  const bool empty = total == T(0);  // no key was seen
  const T factor = empty ? T(0) : T(1) / total;
  T* out = to.out + row * to.row_stride;
  std::int64_t j = 0;
  for (; to.streams && j + kLanes<T> <= to.value_dim; j += kLanes<T>) {
    hn::Stream(hn::Mul(hn::Load(d, weighted + j), hn::Set(d, factor)), d, out + j);
  }
  for (; to.column_stride == 1 && j + kLanes<T> <= to.value_dim; j += kLanes<T>) {
    hn::StoreU(hn::Mul(hn::Load(d, weighted + j), hn::Set(d, factor)), d, out + j);
  }
  for (; j < to.value_dim; ++j) out[j * to.column_stride] = weighted[j] * factor;
  if (to.lse) to.lse[row * to.lse_stride] = empty ? -kInfinity<T> : static_cast<Sum<T>>(log_sum(total, reference));
}

/// Where the results of a head go, from those of `query`.
template <class T>
BlockOutput<T> output_of(const AttentionArgs<T>& args, const HeadMask<T>& mask, std::int64_t query) {
  const View<T, 2> out = args.out[mask.batch][mask.head];
  BlockOutput<T> to{out.data + query * out.stride(0), out.stride(0), out.stride(1), args.v.size(3), nullptr, 0};
  if (args.lse.data) {
    const View<Sum<T>, 1> lse = args.lse[mask.batch][mask.head];
    to.lse = lse.data + query * lse.stride(0);
    to.lse_stride = lse.stride(0);
  }
  return to;
}

/// Keys are packed times this: scores come out as powers of two, unless a score_mod must see them first.
template <class T>
Sum<T> key_factor(const AttentionArgs<T>& args) {
  const bool natural = args.score_mod.function != nullptr;
  return natural ? args.scale : static_cast<Sum<T>>(static_cast<double>(args.scale) * kLog2E<double>);
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
