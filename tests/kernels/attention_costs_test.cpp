// SPDX-License-Identifier: Apache-2.0
// kernels::attention: the memory it takes and the FLOPs it says it does.

#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "support/attention_case.h"
#include "support/contexts.h"

namespace ennead::test {
namespace {

// Memory grows with the number of keys, not with its square. Mutant: scratch of queries x keys.
TEST(KernelsAttentionScratch, LinearInTokens) {
  for_each_isa([&](Isa isa) {
    const auto& kernels = kernels::kernels_for<float>(isa);
    const auto bytes = [&](std::int64_t tokens) {
      kernels::AttentionArgs<float> args;
      args.q = args.k = args.v = View<const float, 4>::contiguous(nullptr, {1, 1, tokens, 64});
      args.out = View<float, 4>::contiguous(nullptr, {1, 1, tokens, 64});
      args.causal = true;
      return static_cast<double>(kernels.attention_scratch(args, 1));
    };
    EXPECT_LE(bytes(65536), 2.01 * bytes(32768));
    EXPECT_LE(bytes(65536), 96e6);
  });
}

// Mutants: future tiles computed; an empty block computed; a dense mask looked ahead.
TEST(KernelsAttentionFlops, OnlyWhatIsSeenIsComputed) {
  const auto executor = make_serial_executor();
  Random random(10);
  for_each_isa([&](Isa isa) {
    const auto& kernels = kernels::kernels_for<float>(isa);
    const double square = 4.0 * 64 * 1024 * 1024;
    AttentionCase<float> causal({1, 1, 1, 1024, 1024, 64, 64}, {.causal = true}, random, Layout::contiguous);
    const double share = kernels.attention_executed_flops(causal.args) / square;
    EXPECT_GE(share, 0.5);
    EXPECT_LE(share, 0.515);
    if (isa == Isa::scalar) return;
    AttentionCase<float> dense({1, 1, 1, 1024, 1024, 64, 64}, {.allow = true}, random, Layout::contiguous);
    EXPECT_EQ(kernels.attention_executed_flops(dense.args), square);
    AttentionCase<float> blocks({1, 1, 1, 1024, 1024, 64, 64}, {.block_q = 128, .block_k = 128}, random,
                                Layout::contiguous);
    double seen = 0;
    for (std::int64_t i = 0; i < 64; ++i) seen += blocks.args.blocks.kinds[i] != 0 ? 1.0 / 64 : 0;
    const double computed = kernels.attention_executed_flops(blocks.args) / square;
    EXPECT_GE(computed, seen * 0.999);
    EXPECT_LE(computed, seen * 1.1);
  });
}

}  // namespace
}  // namespace ennead::test
