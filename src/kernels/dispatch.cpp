// SPDX-License-Identifier: Apache-2.0
// The tables, one per instruction set, and the choice among them.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dispatch.cpp"
#include "kernels/shared/targets.h"
#include "kernels/amx/entries-inl.h"
#include "kernels/simd/entries-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
constexpr Isa kIsa = Isa::avx512;
#elif HWY_TARGET == HWY_AVX2
constexpr Isa kIsa = Isa::avx2;
#elif HWY_TARGET == HWY_SSE4
constexpr Isa kIsa = Isa::sse4;
#elif HWY_TARGET == HWY_NEON
constexpr Isa kIsa = Isa::neon;
#elif HWY_TARGET == HWY_WASM
constexpr Isa kIsa = Isa::wasm128;
#endif

template <class T>
constexpr Kernels<T> kKernels = {
    .isa = kIsa,
    .packed_bytes = simd::packed_bytes<T>,
    .pack_weights = simd::pack_weights<T>,
    .linear_scratch = simd::linear_scratch<T>,
    .linear = simd::linear<T>,
    .matmul_scratch = simd::matmul_scratch<T>,
    .matmul = simd::matmul<T>,
    .softmax = simd::softmax<T>,
    .attention_scratch = simd::attention_scratch<T>,
    .attention = simd::attention<T>,
    .attention_executed_flops = simd::attention_executed_flops<T>,
    .module_packed_bytes = simd::module_packed_bytes<T>,
    .pack_module = simd::pack_module<T>,
    .module_scratch = simd::module_scratch<T>,
    .module = simd::module<T>,
    .peak_loop = simd::peak_loop<T>,
};

#if ENNEAD_AMX
/// The table of AVX-512, with what the tile registers do better in its place.
template <class T>
constexpr Kernels<T> amx_kernels() {
  Kernels<T> kernels = kKernels<T>;
  kernels.isa = Isa::amx;
  if constexpr (std::is_same_v<T, float>) {
    kernels.packed_bytes = amx::packed_bytes;
    kernels.pack_weights = amx::pack_weights;
    kernels.linear_scratch = amx::linear_scratch;
    kernels.linear = amx::linear;
    kernels.attention_scratch = amx::attention_scratch;
    kernels.attention = amx::attention;
    kernels.attention_executed_flops = amx::attention_executed_flops;
    kernels.module_packed_bytes = amx::module_packed_bytes;
    kernels.pack_module = amx::pack_module;
    kernels.module_scratch = amx::module_scratch;
    kernels.module = amx::module;
    kernels.matmul_scratch = amx::matmul_scratch;
    kernels.matmul = amx::matmul;
    kernels.peak_loop = amx::peak_loop;
  }
  return kernels;
}
template <class T>
constexpr Kernels<T> kAmxKernels = amx_kernels<T>();

template <class T>
const Kernels<T>* amx_table() {
  return &kAmxKernels<T>;
}
#endif

template <class T>
constexpr bool kHasVectors = false;
#define ENNEAD_HAS_VECTORS(dtype, T, SumType) ENNEAD_VECTORS_##dtype(template <> constexpr bool kHasVectors<T> = true;)
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_HAS_VECTORS)
#undef ENNEAD_HAS_VECTORS

/// Types without vectors are computed by the plain loops.
template <class T>
const Kernels<T>* table() {
  if constexpr (kHasVectors<T>) {
    return &kKernels<T>;
  } else {
    return &scalar_kernels<T>();
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#if HWY_ONCE
namespace ennead::kernels {

template <class T>
const Kernels<T>& kernels_for(Isa isa) {
#if HWY_TARGETS & HWY_AVX3
#if HWY_ARCH_X86_64
  if (isa == Isa::amx) return *N_AVX3::amx_table<T>();
#endif
  if (isa == Isa::avx512) return *N_AVX3::table<T>();
#endif
#if HWY_TARGETS & HWY_AVX2
  if (isa == Isa::avx2) return *N_AVX2::table<T>();
#endif
#if HWY_TARGETS & HWY_SSE4
  if (isa == Isa::sse4) return *N_SSE4::table<T>();
#endif
#if HWY_TARGETS & HWY_NEON
  if (isa == Isa::neon) return *N_NEON::table<T>();
#endif
#if HWY_TARGETS & HWY_WASM
  if (isa == Isa::wasm128) return *N_WASM::table<T>();
#endif
  return scalar_kernels<T>();
}

#define ENNEAD_INSTANTIATE(dtype, T, SumType) template const Kernels<T>& kernels_for(Isa isa);
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels
#endif  // HWY_ONCE
