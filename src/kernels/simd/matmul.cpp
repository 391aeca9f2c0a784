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
template <class T>
bool shares_items(const MatmulArgs<T>& args, int threads) {
  return threads > 1 && args.c.size(0) * args.c.size(1) < 4 * std::int64_t{threads};
}

/// The bytes that matmul() takes of its scratch: panels of the right operand, packed rows of the left.
struct MatmulScratch {
  std::int64_t panels, rows;
};

template <class T>
MatmulScratch scratch_parts(const MatmulArgs<T>& args) {
  // Batch items differ only in where they start, so the first stands for all; with no item there is no work.
  const View<const T, 2> a{args.a.data, {args.a.size(2), args.a.size(3)}, {args.a.stride(2), args.a.stride(3)}};
  return {static_cast<std::int64_t>(scratch_bytes<T>(panel_elements<T>(args.b.size(2), args.b.size(3)))),
          static_cast<std::int64_t>(scratch_bytes<T>(packed_rows_elements(a)))};
}

template <class T>
std::size_t matmul_scratch(const MatmulArgs<T>& args, int threads) {
  const MatmulScratch parts = scratch_parts(args);
  return static_cast<std::size_t>((shares_items(args, threads) ? 1 : threads) * parts.panels + threads * parts.rows);
}

/// One batch item: its operands, and the memory for its packed right one.
template <class T>
struct MatmulItem {
  View<const T, 2> a, b;
  View<T, 2> c;
  T* panels;

  MatmulItem(const MatmulArgs<T>& args, std::int64_t item, std::byte* scratch)
      : a(args.a[item / args.c.size(1)][item % args.c.size(1)]),
        b(args.b[item / args.c.size(1)][item % args.c.size(1)]),
        c(args.c[item / args.c.size(1)][item % args.c.size(1)]),
        panels(reinterpret_cast<T*>(scratch)) {}

  void pack(std::int64_t panel, T alpha) const {
    const std::int64_t column0 = panel * kPanelColumns<T>;
    pack_panel(b, column0, alpha, panels + column0 * b.size(0));
  }

  /// A block of rows of c, `columns` wide.
  void multiply(const ProductCut& cut, std::int64_t row_block, std::int64_t column0, std::int64_t columns, bool add,
                std::byte* rows_scratch) const {
    const std::int64_t row0 = row_block * cut.block_rows;
    Block<T> block;
    block.rows = std::min(cut.block_rows, c.size(0) - row0);
    block.columns = columns;
    block.panels = panels + column0 * b.size(0);
    block.c = c.data + row0 * c.stride(0) + column0 * c.stride(1);
    block.row_stride = c.stride(0);
    block.column_stride = c.stride(1);
    block.add = add;
    multiply_chunks(block, a, row0, reinterpret_cast<T*>(rows_scratch));
  }
};

template <class T>
void matmul(Executor& executor, const MatmulArgs<T>& args, std::byte* scratch) {
  const int threads = executor.num_threads();
  const std::int64_t items = args.c.size(0) * args.c.size(1), columns = args.c.size(3);
  const std::int64_t panels = ceil_div(columns, kPanelColumns<T>);
  const MatmulScratch parts = scratch_parts(args);
  const bool share = shares_items(args, threads);
  const ProductCut cut = cut_product<T>(args.c.size(2), columns, args.a.size(3), share ? threads : 1);
  std::byte* rows_scratch = scratch + (share ? 1 : threads) * parts.panels;

  if (!share) {
    executor.run(items, [&](std::int64_t index, int worker) HWY_ATTR {
      const MatmulItem<T> item(args, index, scratch + worker * parts.panels);
      for (std::int64_t panel = 0; panel < panels; ++panel) item.pack(panel, args.alpha);
      for (std::int64_t row_block = 0; row_block < cut.row_blocks; ++row_block) {
        item.multiply(cut, row_block, 0, columns, args.accumulate, rows_scratch + worker * parts.rows);
      }
    });
    return;
  }
  for (std::int64_t index = 0; index < items; ++index) {
    const MatmulItem<T> item(args, index, scratch);
    executor.run(panels, [&](std::int64_t panel, int) HWY_ATTR { item.pack(panel, args.alpha); });
    executor.run(cut.row_blocks * cut.groups, [&](std::int64_t task, int worker) HWY_ATTR {
      const std::int64_t column0 = task % cut.groups * cut.group_columns;
      item.multiply(cut, task / cut.groups, column0, std::min(cut.group_columns, columns - column0), args.accumulate,
                    rows_scratch + worker * parts.rows);
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
