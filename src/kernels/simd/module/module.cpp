// SPDX-License-Identifier: Apache-2.0
// The whole module.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/module/module.cpp"
#include "kernels/shared/targets.h"
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/module/module-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

#define ENNEAD_INSTANTIATE(dtype, T, SumType)                                                                     \
  ENNEAD_VECTORS_##dtype(                                                                                         \
      template std::size_t module_packed_bytes<T>(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads); \
      template void pack_module(const ModuleWeights<T>& weights, PackedByte* packed);                             \
      template std::size_t module_scratch(const ModuleArgs<T>& args, int threads);                                \
      template void module(Executor& executor, const ModuleArgs<T>& args, std::byte* scratch);)
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
