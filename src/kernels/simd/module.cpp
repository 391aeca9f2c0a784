// SPDX-License-Identifier: Apache-2.0
// The whole module.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/module.cpp"
#include "kernels/simd/targets.h"
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/module-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

template std::size_t module_packed_elements<float>(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads);
template void pack_module(const ModuleWeights<float>& weights, float* packed);
template std::size_t module_scratch(const ModuleArgs<float>& args, int threads);
template void module(Executor& executor, const ModuleArgs<float>& args, std::byte* scratch);
#if HWY_HAVE_FLOAT64
template std::size_t module_packed_elements<double>(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads);
template void pack_module(const ModuleWeights<double>& weights, double* packed);
template std::size_t module_scratch(const ModuleArgs<double>& args, int threads);
template void module(Executor& executor, const ModuleArgs<double>& args, std::byte* scratch);
#endif

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
