// SPDX-License-Identifier: Apache-2.0
// y = x W^T + bias with weights split and packed once.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx/linear.cpp"
#include "kernels/simd/targets.h"
#include "kernels/amx/entries-inl.h"
#include "kernels/amx/gemm-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

std::size_t packed_elements(std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(PackedRight::bytes(k, n)) / sizeof(float);
}

void pack_weights(View<const float, 2> w, float* packed) { pack_right(w, 1.0F, reinterpret_cast<char*>(packed)); }

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
    block.b = {reinterpret_cast<const char*>(args.packed), depth, columns};
    block.start = args.bias;
    block.add = false;
    block.c = args.y;
    cut.place(task, block);
    const TileRegisters registers;
    multiply_block(block, BlockScratch::take(memory, cut.block_rows, columns, depth));
  });
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX
