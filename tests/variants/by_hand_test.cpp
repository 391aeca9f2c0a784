// SPDX-License-Identifier: Apache-2.0
// Small inputs from public reports about other implementations, with the answer worked out by hand.
// What is about attention itself stands in attention_test, mask_test and flex_test.
#include <gtest/gtest.h>

#include <limits>

#include "support/expect.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::kEpsilon;

class Reports : public test::OfEachVariant {
 protected:
  Context context_ = test::poisoned_context();
};
ENNEAD_FOR_EACH_VARIANT(Reports);

Tensor<double> identity(const Context& context, std::int64_t n) {
  auto matrix = Tensor<double>::full(context, {n, n}, 0);
  for (std::int64_t i = 0; i < n; ++i) matrix.at({i, i}) = 1;
  return matrix;
}

// Splitting heads by rows instead of columns mixes tokens with heads, and one head hides it (FuxiCTR
// 30). With W_query = 0 all visible tokens weigh the same, so a row is the mean of x up to it, and head
// h has columns h * head_dim and up of every token.
TEST_P(Reports, HeadsTakeColumnsOfEveryToken) {
  const Config config{.d_in = 4, .d_out = 4, .context_length = 3, .num_heads = 2, .out_bias = false};
  Weights<double> weights;
  weights.W_query = Tensor<double>::full(context_, {4, 4}, 0);
  weights.W_key = weights.W_value = weights.out_proj_weight = identity(context_, 4);
  const auto x = test::from_doubles<double>(context_, {2, 3, 4}, {0, 1, 2,  3,  10, 11, 12, 13, 20, 21, 22, 23,  //
                                                                  5, 6, 70, 80, 1,  1,  1,  1,  0,  2,  4,  6});
  const auto y = (*make_variant(GetParam(), config, weights))(x);
  EXPECT_TRUE(test::close({0, 1, 2,  3,  5, 6,   7,    8,    10, 11, 12, 13,  //
                           5, 6, 70, 80, 3, 3.5, 35.5, 40.5, 2,  3,  25, 29},
                          y, {1e-13, 0}));
}

// A bias that must not be there, or one in the wrong place (PyTorch 52257; the book's notebook projects
// twice in two of its nine). One bias at a time; with two tokens that see both, x = 0 and identities.
TEST_P(Reports, EachBiasInItsPlace) {
  Config config{.d_in = 4, .d_out = 4, .context_length = 2, .num_heads = 2, .qkv_bias = true};
  config.is_causal = false;
  Weights<double> zero;
  zero.W_query = zero.W_key = zero.W_value = zero.out_proj_weight = identity(context_, 4);
  zero.b_query = zero.b_key = zero.b_value = zero.out_proj_bias = Tensor<double>::full(context_, {4}, 0);
  const auto half = Tensor<double>::full(context_, {4}, 0.5);
  const auto run = [&](const Weights<double>& weights, const Tensor<double>& x) {
    return test::to_doubles((*make_variant(GetParam(), config, weights))(x));
  };
  const auto nothing = Tensor<double>::full(context_, {1, 2, 4}, 0);
  const std::vector<double> zeros(8, 0.0), halves(8, 0.5);
  auto weights = zero;
  EXPECT_EQ(run(weights, nothing), zeros);
  weights.b_value = half;
  EXPECT_EQ(run(weights, nothing), halves);
  weights.b_value = zero.b_value;
  weights.out_proj_bias = half;
  EXPECT_EQ(run(weights, nothing), halves);

  // A bias of K alone adds the same to all scores of a row, and so nothing; a bias of Q does not.
  const auto x = test::from_doubles<double>(context_, {1, 2, 4}, {0.1, 0.2, 0.3, 0.4, 0.8, 0.7, 0.6, 0.5});
  const auto plain = run(zero, x);
  weights = zero;
  weights.b_key = half;
  const auto same = oracle::compare(plain, run(weights, x), 4, {1e-13, 0});
  EXPECT_TRUE(same.ok) << oracle::describe(same);
  weights = zero;
  weights.b_query = half;
  EXPECT_FALSE(oracle::compare(plain, run(weights, x), 4, {1e-3, 0}).ok);
}

// Every combination of the two switches agrees with the oracle, biases being random.
TEST_P(Reports, BiasSwitches) {
  for (const bool qkv_bias : {false, true}) {
    for (const bool out_bias : {false, true}) {
      Config config = test::odd_config(7);
      config.qkv_bias = qkv_bias;
      config.out_bias = out_bias;
      const test::ModuleCase<float> module(context_, config, 2, 7);
      EXPECT_TRUE(test::close(module.expected(), module.run(GetParam()), oracle::first_tolerance(kEpsilon<float>)))
          << qkv_bias << out_bias;
    }
  }
}

// Large inputs (TabPFN 800: sqrt(128) * N(0, 1)): softmax is one-hot almost everywhere, and nothing
// overflows, though scores reach thousands. Judged by the rule against variant 1.
TEST_P(Reports, LargeScores) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    const Config config{.d_in = 128, .d_out = 128, .context_length = 3, .num_heads = 8};
    test::ModuleCase<float> module(context, config, 2, 3);
    for (std::int64_t i = 0; i < module.x.num_elements(); ++i) module.x.data()[i] *= 1e3F;
    const oracle::JudgedRows expected = module.judged();
    const auto first = oracle::compare(expected.out, test::to_doubles(module.run(variants().front())), 128, {0, 1e-3});
    EXPECT_TRUE(first.ok) << oracle::describe(first);
    EXPECT_TRUE(test::close(expected.out, module.run(GetParam()),
                            oracle::tolerance_against_first(first.max_abs_err, kEpsilon<float>), expected.rounding));
  });
}

// Loading or calling a library must not switch denormal numbers off for its caller (LLVM 57589).
TEST_P(Reports, CallersFloatingPointModeStays) {
  const volatile double smallest = std::numeric_limits<double>::denorm_min();
  const volatile float smallest_float = std::numeric_limits<float>::denorm_min();
  ASSERT_NE(smallest, 0);
  const test::ModuleCase<float> module(context_, test::odd_config(30), 2, 30);
  static_cast<void>(module.run(GetParam()));
  EXPECT_NE(smallest, 0);
  EXPECT_NE(smallest_float * 1.0F, 0);
  bool kept = true;
  context_.executor().run(8, [&](std::int64_t, int) { kept = kept && smallest * 1.0 != 0; });
  EXPECT_TRUE(kept);
}

}  // namespace
}  // namespace ennead
