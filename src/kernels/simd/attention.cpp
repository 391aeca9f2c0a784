// SPDX-License-Identifier: Apache-2.0
// Attention by the plain loops.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention.cpp"
#include "kernels/simd/targets.h"
#include "kernels/simd/entries-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

template <class T>
std::size_t attention_scratch(const AttentionArgs<T>& args, int threads) {
  return scalar_kernels<T>().attention_scratch(args, threads);
}

template <class T>
void attention(Executor& executor, const AttentionArgs<T>& args, std::byte* scratch) {
  scalar_kernels<T>().attention(executor, args, scratch);
}

template <class T>
double attention_executed_flops(const AttentionArgs<T>& args) {
  return scalar_kernels<T>().attention_executed_flops(args);
}

template std::size_t attention_scratch(const AttentionArgs<float>& args, int threads);
template void attention(Executor& executor, const AttentionArgs<float>& args, std::byte* scratch);
template double attention_executed_flops(const AttentionArgs<float>& args);
#if HWY_HAVE_FLOAT64
template std::size_t attention_scratch(const AttentionArgs<double>& args, int threads);
template void attention(Executor& executor, const AttentionArgs<double>& args, std::byte* scratch);
template double attention_executed_flops(const AttentionArgs<double>& args);
#endif

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
