// SPDX-License-Identifier: Apache-2.0
// The entries of Kernels<T> as functions, declared for the instruction set being compiled. They
// are defined, and instantiated for the types that the target has vectors for, in the files named here.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ENTRIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ENTRIES_INL_H_
#undef ENNEAD_KERNELS_SIMD_ENTRIES_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ENTRIES_INL_H_
#endif
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

// gemm/products.cpp
template <class T>
std::size_t packed_bytes(std::int64_t n, std::int64_t k);
template <class T>
void pack_weights(View<const T, 2> w, PackedByte* packed);
template <class T>
std::size_t linear_scratch(const LinearArgs<T>& args, int threads);
template <class T>
void linear(Executor& executor, const LinearArgs<T>& args, std::byte* scratch);
template <class T>
std::size_t matmul_scratch(const MatmulArgs<T>& args, int threads);
template <class T>
void matmul(Executor& executor, const MatmulArgs<T>& args, std::byte* scratch);

template <class T>
double peak_loop(std::int64_t iterations, Sum<T>* sink);

// elementwise/softmax.cpp
template <class T>
void softmax(Executor& executor, const SoftmaxArgs<T>& args);

// attention/forward/attention.cpp
template <class T>
std::size_t attention_scratch(const AttentionArgs<T>& args, int threads);
template <class T>
void attention(Executor& executor, const AttentionArgs<T>& args, std::byte* scratch);
template <class T>
double attention_executed_flops(const AttentionArgs<T>& args);

// module/module.cpp
template <class T>
std::size_t module_packed_bytes(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads);
template <class T>
void pack_module(const ModuleWeights<T>& weights, PackedByte* packed);
template <class T>
std::size_t module_scratch(const ModuleArgs<T>& args, int threads);
template <class T>
void module(Executor& executor, const ModuleArgs<T>& args, std::byte* scratch);

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
