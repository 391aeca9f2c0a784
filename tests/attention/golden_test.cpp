// SPDX-License-Identifier: Apache-2.0
// The attention core against PyTorch's: scaled_dot_product_attention and flex_attention.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "ennead/attention.h"
#include "ennead/flex.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/golden.h"

namespace ennead::test {
namespace {

constexpr double kExact = 1e-12;

class GoldenAttention : public testing::TestWithParam<std::string> {};

template <class T>
AttentionOptions<T> options_of(const GoldenFile& file, const Context& context) {
  AttentionOptions<T> options;
  options.attn_mask = {file.tensor<bool>(context, "mask.allow"), file.tensor<T>(context, "mask.bias")};
  options.is_causal = file.flag("is_causal");
  options.align = file.text("align") == "bottom_right" ? CausalAlign::bottom_right : CausalAlign::top_left;
  if (!file.text("scale").empty()) options.scale = file.number("scale");
  options.enable_gqa = file.integer("heads") != file.integer("kv_heads");
  options.return_lse = true;
  return options;
}

// Catches: causality measured from the wrong corner when L != S, key heads repeated along the wrong
// axis, the head size taken for the value width, a given scale ignored, a broadcast mask read with the
// wrong strides, a log-sum-exp in base 2 or without the maximum, a row without a key that is not zeros.
TEST_P(GoldenAttention, OutputAndLogSumExpArePyTorchs) {
  const GoldenFile file(GetParam());
  for_each_isa([&](Isa isa) {
    const Context context = poisoned_context({.isa = isa});
    const auto result =
        scaled_dot_product_attention(file.tensor<double>(context, "q"), file.tensor<double>(context, "k"),
                                     file.tensor<double>(context, "v"), options_of<double>(file, context));
    EXPECT_TRUE(close(file.values("f64.output"), result.output, {kExact, kExact}));
    EXPECT_TRUE(close(file.values("f64.lse"), result.lse, {kExact, kExact}));
  });
}

// Catches: a float32 kernel that loses more than PyTorch's own float32 does, by more than rounding.
TEST_P(GoldenAttention, Float32IsAsGoodAsPyTorchs) {
  const GoldenFile file(GetParam());
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  for_each_isa([&](Isa isa) {
    const Context context = poisoned_context({.isa = isa});
    const auto result =
        scaled_dot_product_attention(file.tensor<float>(context, "q"), file.tensor<float>(context, "k"),
                                     file.tensor<float>(context, "v"), options_of<float>(file, context));
    for (const auto& [name, got] : {std::pair("output", result.output), std::pair("lse", result.lse)}) {
      SCOPED_TRACE(name);
      const std::vector<double> expected = file.values(std::string("f64.") + name);
      const std::vector<double> theirs = file.values(std::string("f32.") + name);
      const double error = oracle::compare(expected, theirs, got.size(-1), {1, 0}).max_abs_err;
      EXPECT_TRUE(close(expected, got, oracle::tolerance_against_first(error, kEpsilon)));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenAttention, testing::ValuesIn(golden_cases("attention")), case_name);

class GoldenFlex : public testing::TestWithParam<std::string> {};

BlockMask block_mask_of(const GoldenFile& file, const Context& context, const Tensor<double>& documents) {
  const std::int64_t tokens = file.integer("tokens");
  constexpr std::int64_t kBlockSize = 4;  // a few blocks of every kind, the last one cut
  const std::string mask = file.text("mask");
  if (mask == "window") {
    const SlidingWindowMask window{static_cast<FlexIndex>(file.number("parameter"))};
    return create_block_mask(context, window, 1, 1, tokens, tokens, kBlockSize);
  }
  if (mask == "documents") {
    const double* document = documents.data();
    const auto same = [document](FlexIndex, FlexIndex, FlexIndex q, FlexIndex k) { return document[q] == document[k]; };
    return create_block_mask(context, same, 1, 1, tokens, tokens, kBlockSize);
  }
  return create_block_mask(context, CausalMask{}, 1, 1, tokens, tokens, kBlockSize);
}

AttentionResult<double> run_flex(const GoldenFile& file, const Context& context) {
  const auto q = file.tensor<double>(context, "q"), k = file.tensor<double>(context, "k"),
             v = file.tensor<double>(context, "v");
  const auto slopes = file.tensor<double>(context, "slopes"), table = file.tensor<double>(context, "table");
  const BlockMask mask = block_mask_of(file, context, file.tensor<double>(context, "documents"));
  FlexOptions options;
  options.return_lse = true;
  const std::string score = file.text("score");
  if (score == "slopes") {
    const double* slope = slopes.data();
    const auto linear = [slope](auto s, FlexIndex, FlexIndex head, FlexIndex query, FlexIndex key) {
      return s + slope[head] * (key - query);
    };
    return flex_attention(q, k, v, linear, mask, options);
  }
  if (score == "soft_cap") {
    const double cap = file.number("parameter");
    const auto capped = [cap](auto s, FlexIndex, FlexIndex, FlexIndex, FlexIndex) { return cap * std::tanh(s / cap); };
    return flex_attention(q, k, v, capped, mask, options);
  }
  const double* middle = table.data() + file.integer("tokens") - 1;
  const auto looked_up = [middle](auto s, FlexIndex, FlexIndex, FlexIndex query, FlexIndex key) {
    return s + middle[query - key];
  };
  return flex_attention(q, k, v, looked_up, mask, options);
}

// Catches: a score_mod that sees the raw score instead of the scaled one, or runs after the mask (a
// capped -inf is a number); query and key swapped; a window off by one; indices that start anew in each tile.
TEST_P(GoldenFlex, OutputAndLogSumExpArePyTorchs) {
  const GoldenFile file(GetParam());
  for_each_isa([&](Isa isa) {
    const Context context = poisoned_context({.isa = isa});
    const AttentionResult<double> result = run_flex(file, context);
    EXPECT_TRUE(close(file.values("f64.output"), result.output, {kExact, kExact}));
    EXPECT_TRUE(close(file.values("f64.lse"), result.lse, {kExact, kExact}));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenFlex, testing::ValuesIn(golden_cases("flex")), case_name);

}  // namespace
}  // namespace ennead::test
