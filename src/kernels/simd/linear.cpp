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

/// How a product is cut into tasks: blocks of rows, and groups of panels when those are too few.
struct LinearPlan {
  std::int64_t block_rows, row_blocks, group_columns, groups;
};

template <class T>
LinearPlan plan_linear(const LinearArgs<T>& args, int threads) {
  const std::int64_t rows = args.y.size(0), columns = args.y.size(1);
  LinearPlan plan;
  plan.block_rows = rows_per_block<T>(args.x.size(1));
  plan.row_blocks = ceil_div(rows, plan.block_rows);
  const std::int64_t panels = ceil_div(columns, kPanelColumns<T>);
  const std::int64_t wanted =
      threads == 1 ? 1 : ceil_div(8 * std::int64_t{threads}, std::max<std::int64_t>(1, plan.row_blocks));
  plan.group_columns =
      std::max<std::int64_t>(1, panels / std::min(wanted, std::max<std::int64_t>(1, panels))) * kPanelColumns<T>;
  plan.groups = ceil_div(columns, plan.group_columns);
  return plan;
}

template <class T>
std::size_t packed_elements(std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(panel_elements<T>(k, n));
}

template <class T>
void pack_weights(View<const T, 2> w, T* packed) {
  const View<const T, 2> transposed{w.data, {w.size(1), w.size(0)}, {w.stride(1), w.stride(0)}};
  for (std::int64_t n = 0; n < w.size(0); n += kPanelColumns<T>) {
    pack_panel(transposed, n, T(1), packed + n * w.size(1));
  }
}

/// Whether the tiles can read the rows of x where they lie.
template <class T>
bool rows_in_place(const View<const T, 2>& x) {
  return x.stride(1) == 1 || x.size(1) <= 1;
}

template <class T>
std::int64_t packed_rows_elements(const View<const T, 2>& x) {
  if (rows_in_place(x)) return 0;
  return std::min(x.size(0), rows_per_block<T>(x.size(1))) * std::min(x.size(1), kDepthChunk);
}

template <class T>
std::size_t linear_scratch(const LinearArgs<T>& args, int threads) {
  return static_cast<std::size_t>(threads) * scratch_bytes<T>(packed_rows_elements(args.x));
}

template <class T>
void linear(Executor& executor, const LinearArgs<T>& args, std::byte* scratch) {
  const std::int64_t depth = args.x.size(1);
  const LinearPlan plan = plan_linear(args, executor.num_threads());
  const std::size_t worker_bytes = scratch_bytes<T>(packed_rows_elements(args.x));
  executor.run(plan.row_blocks * plan.groups, [&](std::int64_t task, int worker) HWY_ATTR {
    const std::int64_t row0 = task / plan.groups * plan.block_rows, column0 = task % plan.groups * plan.group_columns;
    Block<T> block;
    block.rows = std::min(plan.block_rows, args.y.size(0) - row0);
    block.columns = std::min(plan.group_columns, args.y.size(1) - column0);
    block.panel_depth = depth;
    block.c = args.y.data + row0 * args.y.stride(0) + column0 * args.y.stride(1);
    block.row_stride = args.y.stride(0);
    block.column_stride = args.y.stride(1);
    block.start = args.bias ? args.bias + column0 : nullptr;
    std::int64_t k0 = 0;
    do {
      block.depth = std::min(kDepthChunk, depth - k0);
      block.a = {args.x.data + row0 * args.x.stride(0) + k0 * args.x.stride(1), args.x.stride(0), args.x.stride(1)};
      if (!rows_in_place(args.x)) {
        T* packed = reinterpret_cast<T*>(scratch + static_cast<std::size_t>(worker) * worker_bytes);
        pack_rows(block.rows, block.depth, block.a.data, block.a.row_stride, block.a.depth_stride, packed);
        block.packed_rows = packed;
      }
      block.panels = args.packed + column0 * depth;
      block.depth0 = k0;
      multiply_block(block);
      block.add = true;
      k0 += block.depth;
    } while (k0 < depth);
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
