// SPDX-License-Identifier: Apache-2.0
// The entries of Kernels<float> that differ from those of AVX-512. They are defined in the files named here.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ENTRIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ENTRIES_INL_H_
#undef ENNEAD_KERNELS_AMX_ENTRIES_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ENTRIES_INL_H_
#endif
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

// gemm/products.cpp
std::size_t packed_bytes(std::int64_t n, std::int64_t k);
void pack_weights(View<const float, 2> w, PackedByte* packed);
std::size_t linear_scratch(const LinearArgs<float>& args, int threads);
void linear(Executor& executor, const LinearArgs<float>& args, std::byte* scratch);
std::size_t matmul_scratch(const MatmulArgs<float>& args, int threads);
void matmul(Executor& executor, const MatmulArgs<float>& args, std::byte* scratch);
double peak_loop(std::int64_t iterations, float* sink);

// attention/forward/attention.cpp
std::size_t attention_scratch(const AttentionArgs<float>& args, int threads);
void attention(Executor& executor, const AttentionArgs<float>& args, std::byte* scratch);
double attention_executed_flops(const AttentionArgs<float>& args);

// module/module.cpp
std::size_t module_packed_bytes(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads);
void pack_module(const ModuleWeights<float>& weights, PackedByte* packed);
std::size_t module_scratch(const ModuleArgs<float>& args, int threads);
void module(Executor& executor, const ModuleArgs<float>& args, std::byte* scratch);

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
