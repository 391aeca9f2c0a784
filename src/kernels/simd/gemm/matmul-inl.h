// SPDX-License-Identifier: Apache-2.0
// Batched products of any strides: each right operand is packed into panels, then multiplied like weights.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_MATMUL_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_MATMUL_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_MATMUL_INL_H_
#endif
#include "kernels/simd/entries-inl.h"
#include "kernels/simd/gemm/block-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

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

  void pack(std::int64_t panel, Sum<T> alpha) const { pack_panel(b, PanelSplit<T>(c.size(1)), panel, alpha, panels); }

  /// A task of `cut`; this thread will probably do `next_task` after it.
  void multiply(const ProductCut& cut, std::int64_t task, std::int64_t next_task, std::byte* rows_scratch) const {
    Block<T> block;
    block.columns = c.size(1);
    block.panels = panels;
    block.row_stride = c.stride(0);
    block.column_stride = c.stride(1);
    cut.place(task, c.size(0), c.data, block);
    multiply_chunks(block, a, cut.first_row(task), cut.first_row(next_task), reinterpret_cast<T*>(rows_scratch));
  }
};

template <class T>
void matmul(Executor& executor, const MatmulArgs<T>& args, std::byte* scratch) {
  const int threads = executor.num_threads();
  const std::int64_t items = args.c.size(0) * args.c.size(1);
  const MatmulScratch parts = scratch_parts(args);
  const bool share = shares_items(args, threads);
  const ProductCut cut = cut_product<T>(args.c.size(2), args.c.size(3), args.a.size(3), share ? threads : 1);
  std::byte* rows_scratch = scratch + (share ? 1 : threads) * parts.panels;

  if (!share) {
    executor.run(items, [&](std::int64_t index, int worker) HWY_ATTR {
      const MatmulItem<T> item(args, index, scratch + worker * parts.panels);
      for (std::int64_t panel = 0; panel < cut.panels; ++panel) item.pack(panel, args.alpha);
      for (std::int64_t task = 0; task < cut.tasks(); ++task) {
        item.multiply(cut, task, task + 1, rows_scratch + worker * parts.rows);
      }
    });
    return;
  }
  for (std::int64_t index = 0; index < items; ++index) {
    const MatmulItem<T> item(args, index, scratch);
    executor.run(cut.panels, [&](std::int64_t panel, int) HWY_ATTR { item.pack(panel, args.alpha); });
    executor.run(cut.tasks(), [&](std::int64_t task, int worker) HWY_ATTR {
      item.multiply(cut, task, task + threads, rows_scratch + worker * parts.rows);
    });
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
