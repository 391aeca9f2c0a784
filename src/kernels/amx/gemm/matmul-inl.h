// SPDX-License-Identifier: Apache-2.0
// Batched products of any strides: each right operand is split into panels, then multiplied like weights.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_GEMM_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_GEMM_MATMUL_INL_H_
#undef ENNEAD_KERNELS_AMX_GEMM_MATMUL_INL_H_
#else
#define ENNEAD_KERNELS_AMX_GEMM_MATMUL_INL_H_
#endif
#include "kernels/amx/entries-inl.h"
#include "kernels/amx/gemm/block-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {
namespace {

/// How matmul() goes about its work, and the bytes of each part of its scratch.
struct MatmulPlan {
  /// Either every task multiplies a whole batch item and packs its right operand itself, or, when items are few,
  /// items follow one another and the workers share each.
  bool share;
  ProductCut cut;
  std::int64_t packed_bytes, block_bytes;

  MatmulPlan(const MatmulArgs<float>& args, int threads)
      : share(threads > 1 && args.c.size(0) * args.c.size(1) < 4 * std::int64_t{threads}),
        cut(args.c.size(2), args.c.size(3), args.a.size(3), share ? threads : 1) {
    const std::int64_t columns = args.c.size(3), depth = args.a.size(3);
    block_bytes = static_cast<std::int64_t>(
        scratch_taken([&](std::byte*& memory) { BlockScratch::take(memory, cut.block_rows, columns, depth); }));
    packed_bytes = static_cast<std::int64_t>(scratch_bytes<char>(PackedRight::bytes(depth, columns)));
  }
  std::int64_t bytes(int threads) const { return (share ? 1 : threads) * packed_bytes + threads * block_bytes; }
};

/// One batch item: its operands, and the memory for its packed right one.
class MatmulItem {
 public:
  MatmulItem(const MatmulArgs<float>& args, const MatmulPlan& plan, std::int64_t item, std::byte* scratch)
      : alpha_(args.alpha), plan_(plan) {
    const std::int64_t p = item / args.c.size(1), q = item % args.c.size(1);
    block_.a = args.a[p][q];
    block_.c = args.c[p][q];
    block_.start = nullptr;
    const View<const float, 2> b = args.b[p][q];
    columns_ = {b.data, {b.size(1), b.size(0)}, {b.stride(1), b.stride(0)}};
    packed_ = reinterpret_cast<PackedByte*>(scratch);
    block_.b = {packed_, b.size(0), b.size(1)};
  }

  /// Tame is what is tame times alpha: that is multiplied.
  void pack(std::int64_t panel) const { packer().pack(columns_, panel, alpha_, panel); }
  void finish_packing() const { packer().finish(); }
  void multiply(std::int64_t task, std::byte* memory) const {
    BlockArgs block = block_;
    plan_.cut.place(task, block);
    const TileRegisters registers;
    multiply_block(block, BlockScratch::take(memory, plan_.cut.block_rows, block.b.columns, block.b.depth));
  }

 private:
  RightPacker packer() const { return RightPacker(block_.b.depth, block_.b.columns, packed_); }

  Sum<float> alpha_;
  const MatmulPlan& plan_;
  BlockArgs block_;
  View<const float, 2> columns_;
  PackedByte* packed_;
};

}  // namespace

std::size_t matmul_scratch(const MatmulArgs<float>& args, int threads) {
  return static_cast<std::size_t>(MatmulPlan(args, threads).bytes(threads));
}

void matmul(Executor& executor, const MatmulArgs<float>& args, std::byte* scratch) {
  const int threads = executor.num_threads();
  const std::int64_t items = args.c.size(0) * args.c.size(1);
  const MatmulPlan plan(args, threads);
  std::byte* const blocks = scratch + (plan.share ? 1 : threads) * plan.packed_bytes;

  if (!plan.share) {
    executor.run(items, [&](std::int64_t index, int worker) HWY_ATTR {
      const MatmulItem item(args, plan, index, scratch + worker * plan.packed_bytes);
      for (std::int64_t panel = 0; panel < plan.cut.panels; ++panel) item.pack(panel);
      item.finish_packing();
      for (std::int64_t task = 0; task < plan.cut.tasks(); ++task) {
        item.multiply(task, blocks + worker * plan.block_bytes);
      }
    });
    return;
  }
  for (std::int64_t index = 0; index < items; ++index) {
    const MatmulItem item(args, plan, index, scratch);
    executor.run(plan.cut.panels, [&](std::int64_t panel, int) HWY_ATTR { item.pack(panel); });
    item.finish_packing();
    executor.run(plan.cut.tasks(), [&](std::int64_t task, int worker)
                                       HWY_ATTR { item.multiply(task, blocks + worker * plan.block_bytes); });
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
