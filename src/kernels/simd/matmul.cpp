// SPDX-License-Identifier: Apache-2.0
// Batched products of any strides: each right operand is packed into panels, then multiplied like weights.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/matmul.cpp"
#include "kernels/simd/targets.h"
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/gemm-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Either every task multiplies a whole batch item and packs its right operand itself, or, when
/// items are few, items follow one another and the workers share each.
struct MatmulPlan {
  std::int64_t items, block_rows, row_blocks, panels;
  bool share_items;
};

template <class T>
MatmulPlan plan_matmul(const MatmulArgs<T>& args, int threads) {
  MatmulPlan plan;
  plan.items = args.c.size(0) * args.c.size(1);
  plan.block_rows = rows_per_block<T>(args.a.size(3));
  plan.row_blocks = ceil_div(args.c.size(2), plan.block_rows);
  plan.panels = ceil_div(args.c.size(3), kPanelColumns<T>);
  plan.share_items = threads > 1 && plan.items < 4 * std::int64_t{threads};
  return plan;
}

/// Whether the tiles can read the rows of `a` where they lie.
template <class T>
bool rows_in_place(const MatmulArgs<T>& args) {
  return args.a.stride(3) == 1 || args.a.size(3) <= 1;
}

template <class T>
std::int64_t packed_rows_elements(const MatmulArgs<T>& args) {
  if (rows_in_place(args)) return 0;
  const std::int64_t depth = args.a.size(3);
  return std::min(args.a.size(2), rows_per_block<T>(depth)) * std::min(depth, kDepthChunk);
}

template <class T>
std::size_t matmul_scratch(const MatmulArgs<T>& args, int threads) {
  const MatmulPlan plan = plan_matmul(args, threads);
  const std::size_t panels = scratch_bytes<T>(panel_elements<T>(args.b.size(2), args.b.size(3)));
  const auto workers = static_cast<std::size_t>(threads);
  return (plan.share_items ? 1 : workers) * panels + workers * scratch_bytes<T>(packed_rows_elements(args));
}

/// c[row0.., column0..] of one batch item, a block of rows high and `columns` wide.
template <class T>
void multiply_rows(const MatmulArgs<T>& args, std::int64_t item, const MatmulPlan& plan, std::int64_t row_block,
                   std::int64_t column0, std::int64_t columns, const T* panels, T* packed_rows) {
  const std::int64_t p = item / args.c.size(1), q = item % args.c.size(1), depth = args.a.size(3);
  const View<const T, 2> a = args.a[p][q];
  const View<T, 2> c = args.c[p][q];
  const std::int64_t row0 = row_block * plan.block_rows;
  Block<T> block;
  block.rows = std::min(plan.block_rows, c.size(0) - row0);
  block.columns = columns;
  block.panels = panels + column0 * depth;
  block.panel_depth = depth;
  block.c = c.data + row0 * c.stride(0) + column0 * c.stride(1);
  block.row_stride = c.stride(0);
  block.column_stride = c.stride(1);
  block.add = args.accumulate;
  do {
    block.depth = std::min(kDepthChunk, depth - block.depth0);
    block.a = {a.data + row0 * a.stride(0) + block.depth0 * a.stride(1), a.stride(0), a.stride(1)};
    if (!rows_in_place(args)) {
      pack_rows(block.rows, block.depth, block.a.data, block.a.row_stride, block.a.depth_stride, packed_rows);
      block.packed_rows = packed_rows;
    }
    multiply_block(block);
    block.add = true;
    block.depth0 += block.depth;
  } while (block.depth0 < depth);
}

template <class T>
void matmul(Executor& executor, const MatmulArgs<T>& args, std::byte* scratch) {
  const MatmulPlan plan = plan_matmul(args, executor.num_threads());
  const std::int64_t columns = args.c.size(3), depth = args.a.size(3);
  const std::int64_t panel_bytes = static_cast<std::int64_t>(scratch_bytes<T>(panel_elements<T>(depth, columns)));
  const std::int64_t rows_bytes = static_cast<std::int64_t>(scratch_bytes<T>(packed_rows_elements(args)));
  std::byte* rows_scratch = scratch + (plan.share_items ? 1 : executor.num_threads()) * panel_bytes;
  const auto pack = [&](std::int64_t item, std::int64_t panel, T* panels) HWY_ATTR {
    const std::int64_t column0 = panel * kPanelColumns<T>;
    pack_panel(args.b[item / args.c.size(1)][item % args.c.size(1)], column0, args.alpha, panels + column0 * depth);
  };

  if (!plan.share_items) {
    executor.run(plan.items, [&](std::int64_t item, int worker) HWY_ATTR {
      T* panels = reinterpret_cast<T*>(scratch + worker * panel_bytes);
      for (std::int64_t panel = 0; panel < plan.panels; ++panel) pack(item, panel, panels);
      for (std::int64_t row_block = 0; row_block < plan.row_blocks; ++row_block) {
        multiply_rows(args, item, plan, row_block, 0, columns, panels,
                      reinterpret_cast<T*>(rows_scratch + worker * rows_bytes));
      }
    });
    return;
  }

  T* panels = reinterpret_cast<T*>(scratch);
  const std::int64_t wanted =
      std::max<std::int64_t>(1, 8 * executor.num_threads() / std::max<std::int64_t>(1, plan.row_blocks));
  const std::int64_t group_columns =
      std::max<std::int64_t>(1, plan.panels / std::min(wanted, std::max<std::int64_t>(1, plan.panels))) *
      kPanelColumns<T>;
  const std::int64_t groups = ceil_div(columns, group_columns);
  for (std::int64_t item = 0; item < plan.items; ++item) {
    executor.run(plan.panels, [&](std::int64_t panel, int) HWY_ATTR { pack(item, panel, panels); });
    executor.run(plan.row_blocks * groups, [&](std::int64_t task, int worker) HWY_ATTR {
      const std::int64_t column0 = task % groups * group_columns;
      multiply_rows(args, item, plan, task / groups, column0, std::min(group_columns, columns - column0), panels,
                    reinterpret_cast<T*>(rows_scratch + worker * rows_bytes));
    });
  }
}

template std::size_t matmul_scratch(const MatmulArgs<float>& args, int threads);
template void matmul(Executor& executor, const MatmulArgs<float>& args, std::byte* scratch);
#if HWY_HAVE_FLOAT64
template std::size_t matmul_scratch(const MatmulArgs<double>& args, int threads);
template void matmul(Executor& executor, const MatmulArgs<double>& args, std::byte* scratch);
#endif

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
