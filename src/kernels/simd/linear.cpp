// SPDX-License-Identifier: Apache-2.0
// y = x W^T + bias with weights packed once.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/linear.cpp"
#include "kernels/simd/targets.h"
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/gemm-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

template <class T>
std::size_t packed_elements(std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(panel_elements<T>(k, n));
}

template <class T>
void pack_weights(View<const T, 2> w, T* packed) {
  pack_panels(transposed(w), T(1), packed);
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
    block.panels = args.packed;
    block.row_stride = args.y.stride(0);
    block.column_stride = args.y.stride(1);
    block.start = args.bias;
    cut.place(task, rows, args.y.data, block);
    multiply_chunks(block, args.x, cut.first_row(task), cut.first_row(task + threads),
                    reinterpret_cast<T*>(scratch + static_cast<std::size_t>(worker) * worker_bytes));
  });
}

template std::size_t packed_elements<float>(std::int64_t n, std::int64_t k);
template void pack_weights(View<const float, 2> w, float* packed);
template std::size_t linear_scratch(const LinearArgs<float>& args, int threads);
template void linear(Executor& executor, const LinearArgs<float>& args, std::byte* scratch);
#if HWY_HAVE_FLOAT64
template std::size_t packed_elements<double>(std::int64_t n, std::int64_t k);
template void pack_weights(View<const double, 2> w, double* packed);
template std::size_t linear_scratch(const LinearArgs<double>& args, int threads);
template void linear(Executor& executor, const LinearArgs<double>& args, std::byte* scratch);
#endif

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
