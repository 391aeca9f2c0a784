// SPDX-License-Identifier: Apache-2.0
// y = x W^T + bias with weights split and packed once.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_GEMM_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_GEMM_LINEAR_INL_H_
#undef ENNEAD_KERNELS_AMX_GEMM_LINEAR_INL_H_
#else
#define ENNEAD_KERNELS_AMX_GEMM_LINEAR_INL_H_
#endif
#include "kernels/amx/entries-inl.h"
#include "kernels/amx/gemm/block-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

std::size_t packed_bytes(std::int64_t n, std::int64_t k) { return static_cast<std::size_t>(PackedRight::bytes(k, n)); }

void pack_weights(View<const float, 2> w, PackedByte* packed) { pack_right(w, 1.0F, packed); }

namespace {

std::size_t worker_bytes(const LinearArgs<float>& args, int threads) {
  const ProductCut cut(args.y.size(0), args.y.size(1), args.x.size(1), threads);
  return scratch_taken(
      [&](std::byte*& memory) { BlockScratch::take(memory, cut.block_rows, args.y.size(1), args.x.size(1)); });
}

}  // namespace

std::size_t linear_scratch(const LinearArgs<float>& args, int threads) {
  return static_cast<std::size_t>(threads) * worker_bytes(args, threads);
}

void linear(Executor& executor, const LinearArgs<float>& args, std::byte* scratch) {
  const std::int64_t rows = args.y.size(0), columns = args.y.size(1), depth = args.x.size(1);
  const ProductCut cut(rows, columns, depth, executor.num_threads());
  const std::size_t bytes = worker_bytes(args, executor.num_threads());
  executor.run(cut.tasks(), [&](std::int64_t task, int worker) HWY_ATTR {
    std::byte* memory = scratch + static_cast<std::size_t>(worker) * bytes;
    BlockArgs block;
    block.a = args.x;
    block.b = {args.packed, depth, columns};
    block.start = args.bias;
    block.c = args.y;
    cut.place(task, block);
    const TileRegisters registers;
    multiply_block(block, BlockScratch::take(memory, cut.block_rows, columns, depth));
  });
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
