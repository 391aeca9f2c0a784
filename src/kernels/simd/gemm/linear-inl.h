// SPDX-License-Identifier: Apache-2.0
// y = x W^T + bias with weights packed once.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_LINEAR_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_LINEAR_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_LINEAR_INL_H_
#endif
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/gemm/block-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

template <class T>
std::size_t packed_bytes(std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(panel_elements<T>(k, n)) * sizeof(T);
}

template <class T>
void pack_weights(View<const T, 2> w, PackedByte* packed) {
  pack_panels(transposed(w), T(1), reinterpret_cast<T*>(packed));
}

template <class T>
std::size_t linear_scratch(const LinearArgs<T>& args, int threads) {
  return static_cast<std::size_t>(threads) * scratch_bytes<T>(packed_rows_elements(args.x));
}

template <class T>
void linear(Executor& executor, const LinearArgs<T>& args, std::byte* scratch) {
  const std::int64_t rows = args.y.size(0), columns = args.y.size(1), depth = args.x.size(1);
  const int threads = executor.num_threads();
  const ProductCut cut = cut_product<T>(rows, columns, depth, threads);
  const std::size_t worker_bytes = scratch_bytes<T>(packed_rows_elements(args.x));
  executor.run(cut.tasks(), [&](std::int64_t task, int worker) HWY_ATTR {
    Block<T> block;
    block.columns = columns;
    block.panels = reinterpret_cast<const T*>(args.packed);
    block.row_stride = args.y.stride(0);
    block.column_stride = args.y.stride(1);
    block.start = args.bias;
    cut.place(task, rows, args.y.data, block);
    multiply_chunks(block, args.x, cut.first_row(task), cut.first_row(task + threads),
                    reinterpret_cast<T*>(scratch + static_cast<std::size_t>(worker) * worker_bytes));
  });
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
