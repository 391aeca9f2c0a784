// SPDX-License-Identifier: Apache-2.0
// Products of matrices: y = x W^T with packed weights, batched products, and the loop that shows the most a CPU can do.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/gemm/products.cpp"
#include "kernels/shared/targets.h"
#include "kernels/simd/gemm/linear-inl.h"
#include "kernels/simd/gemm/matmul-inl.h"
#include "kernels/simd/gemm/peak-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

#define ENNEAD_INSTANTIATE(dtype, T, SumType)                                                                     \
  ENNEAD_VECTORS_##dtype(template std::size_t packed_bytes<T>(std::int64_t n, std::int64_t k);                    \
                         template void pack_weights(View<const T, 2> w, PackedByte* packed);                      \
                         template std::size_t linear_scratch(const LinearArgs<T>& args, int threads);             \
                         template void linear(Executor& executor, const LinearArgs<T>& args, std::byte* scratch); \
                         template std::size_t matmul_scratch(const MatmulArgs<T>& args, int threads);             \
                         template void matmul(Executor& executor, const MatmulArgs<T>& args, std::byte* scratch); \
                         template double peak_loop<T>(std::int64_t iterations, Sum<T> * sink);)
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
