// SPDX-License-Identifier: Apache-2.0
// Attention without the score matrix.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention.cpp"
#include "kernels/simd/targets.h"
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/attention-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

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
