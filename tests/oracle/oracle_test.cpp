// SPDX-License-Identifier: Apache-2.0
// Who checks the oracle? Literal values worked out by hand, and properties that hold for any input.
#include "oracle/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oracle/compare.h"
#include "support/random.h"

namespace ennead {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The golden case G1: four queries and keys of head size 2, in float64, scale 1 / sqrt(2).
const std::vector<double> kQuery{1, 1, 2, -1, 0, 1, 1, 2}, kKey{1, 0, 0, 1, 1, 1, -1, 1},
    kValue{1, 10, 2, 20, 3, 30, 4, 40};
const oracle::AttentionShape kG1{.num_queries = 4, .num_keys = 4, .head_dim = 2, .value_dim = 2};

void expect_near(const std::vector<double>& expected, const std::vector<double>& got, double tolerance) {
  const auto comparison = oracle::compare(expected, got, 1, {tolerance, 0});
  EXPECT_TRUE(comparison.ok) << oracle::describe(comparison);
}

// Mutants: scale left out; mask by row instead of column; lse without the maximum.
TEST(Oracle, GoldenCausal) {
  const auto got = oracle::attention(kG1, kQuery, kKey, kValue, {.causal = true});
  expect_near({1, 10, 1.107042, 11.070418, 2.203336, 22.033363, 2.628058, 26.280581}, got.out, 6e-7);
  expect_near({0.707107, 1.527429, 1.620621, 2.804065}, got.lse, 6e-7);
}

// What the original's variant 6 computes: the mask that allows exactly the future.
TEST(Oracle, GoldenInvertedMask) {
  oracle::Rules inverted;
  inverted.allow = [](auto, auto, std::int64_t q, std::int64_t k) { return k > q; };
  const auto got = oracle::attention(kG1, kQuery, kKey, kValue, inverted);
  expect_near({3.055807, 30.558072}, {got.out[2], got.out[3]}, 6e-7);
  expect_near({0, 0}, {got.out[6], got.out[7]}, 0);  // nothing left for the last row
  EXPECT_EQ(got.lse[3], -kInfinity);
}

// Bottom right: one query that stands at the end of four keys sees all of them.
TEST(Oracle, CausalOffset) {
  oracle::AttentionShape shape = kG1;
  shape.num_queries = 1;
  const std::vector<double> last{1, 2};
  expect_near({1, 10}, oracle::attention(shape, last, kKey, kValue, {.causal = true}).out, 1e-12);
  expect_near({2.628058, 26.280581},
              oracle::attention(shape, last, kKey, kValue, {.causal = true, .causal_offset = 3}).out, 6e-7);
}

// Mutant: a blocked key multiplied by weight 0 lets its NaN through.
TEST(Oracle, BlockedNaNDoesNotLeakAndAllowedNaNDoes) {
  auto key = kKey, value = kValue;
  key[6] = kNaN;
  value[7] = kNaN;
  const auto got = oracle::attention(kG1, kQuery, key, value, {.causal = true});
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isfinite(got.out[i])) << i;
  EXPECT_TRUE(std::isnan(got.out[6]) && std::isnan(got.out[7]));
  oracle::Rules bias;
  bias.bias = [](auto, auto, auto, std::int64_t k) { return k == 3 ? -kInfinity : 0.0; };
  for (const double out : oracle::attention(kG1, kQuery, key, value, bias).out) EXPECT_TRUE(std::isfinite(out));
}

// Order of the rules: the mod sees the scaled score, the bias comes after it (a cap must not undo it).
TEST(Oracle, ModThenBias) {
  const oracle::AttentionShape shape{.num_queries = 1, .num_keys = 2, .head_dim = 1, .value_dim = 1};
  oracle::Rules rules;
  rules.scale = 2;
  rules.score_mod = [](double score, auto...) { return std::tanh(score); };
  rules.bias = [](auto, auto, auto, std::int64_t k) { return k == 0 ? 5.0 : 0.0; };
  const auto got = oracle::attention(shape, {1}, {3, 4}, {0, 1}, rules);
  const double a = std::tanh(6.0) + 5, b = std::tanh(8.0);
  expect_near({1 / (1 + std::exp(a - b))}, got.out, 1e-15);
  expect_near({a + std::log1p(std::exp(b - a))}, got.lse, 1e-14);
}

// Query heads share key heads in groups of neighbours.
TEST(Oracle, GroupedHeads) {
  const oracle::AttentionShape shape{
      .heads = 4, .kv_heads = 2, .num_queries = 1, .num_keys = 1, .head_dim = 1, .value_dim = 1};
  expect_near({7, 7, 9, 9}, oracle::attention(shape, {1, 2, 3, 4}, {5, 6}, {7, 9}, {}).out, 0);
}

// The module by hand: two heads of size 1, two tokens, biases everywhere, d_in != d_out.
// Mutants: heads taken as rows; bias of one projection lost; out_proj transposed.
TEST(Oracle, ModuleByHand) {
  oracle::Module module;
  module.d_in = 3;
  module.d_out = 2;
  module.num_heads = 2;
  module.W_query = {1, 0, 0, 0, 1, 0};
  module.W_key = {0, 1, 0, 0, 0, 1};
  module.W_value = {0, 0, 1, 1, 0, 0};
  module.b_query = {0.5, -0.5};
  module.b_key = {0.25, 0};
  module.b_value = {0, 1};
  module.out_weight = {1, 2, 3, 4};
  module.out_bias = {10, 20};
  const std::vector<double> x{1, 2, 3, 4, 5, 6};
  // Row 0 sees itself only: values (3, 2), merged by out_proj.
  // Row 1: queries (4.5, 4.5); keys of head 0 are (2.25, 5.25), of head 1 (3, 6); both differ by 3.
  const double w = 1 / (1 + std::exp(-4.5 * 3));
  const double v0 = 3 * (1 - w) + 6 * w, v1 = 2 * (1 - w) + 5 * w;
  const std::vector<double> expected{10 + 3 + 4, 20 + 9 + 8, 10 + v0 + 2 * v1, 20 + 3 * v0 + 4 * v1};
  expect_near(expected, oracle::module_rows(module, x, 1, 2, {.causal = true}, {}), 1e-13);
  expect_near({expected[2], expected[3]}, oracle::module_rows(module, x, 1, 2, {.causal = true}, {1}), 1e-13);
  expect_near({1, 0, 1 - w, w, 1, 0, 1 - w, w}, oracle::module_attention(module, x, 1, 2, {.causal = true}).weights,
              1e-15);
}

TEST(Oracle, RowsHaveFirstAndLast) {
  EXPECT_EQ(oracle::sample_rows(3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(oracle::sample_rows(1), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(oracle::sample_rows(0).empty());
  for (const std::int64_t tokens : {64, 65, 1024, 16384}) {
    const auto rows = oracle::sample_rows(tokens);
    EXPECT_EQ(rows.size(), 64u);
    EXPECT_EQ(rows.front(), 0);
    EXPECT_EQ(rows.back(), tokens - 1);
    for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_LT(rows[i - 1], rows[i]);
  }
}

// Mutants: `if (err > tol) fail` (a NaN passes); one mean over all rows; equal infinities refused.
TEST(Compare, FailsSafe) {
  EXPECT_TRUE(oracle::compare(std::vector{1.0, kNaN, kInfinity}, std::vector{1.0, kNaN, kInfinity}, 3, {}).ok);
  for (const double wrong : {kNaN, kInfinity, -kInfinity}) {
    const auto comparison = oracle::compare(std::vector{1.0, 2.0}, std::vector{1.0, wrong}, 2, {1e300, 1e300});
    EXPECT_FALSE(comparison.ok) << wrong;
    EXPECT_EQ(comparison.max_abs_err, kInfinity);
    EXPECT_EQ(comparison.worst_column, 1);
  }
  EXPECT_FALSE(oracle::compare(std::vector{kInfinity}, std::vector{-kInfinity}, 1, {1, 1}).ok);
  EXPECT_FALSE(oracle::compare(std::vector{kNaN}, std::vector{0.0}, 1, {1, 1}).ok);
  EXPECT_FALSE(oracle::compare(std::vector{1.0}, std::vector{1.5}, 1, {kNaN, 0}).ok);
  EXPECT_FALSE(oracle::compare(std::vector{1.0}, std::vector{1.0, 1.0}, 1, {1, 1}).ok);
  EXPECT_FALSE(oracle::compare(std::vector{1.0, 1.0, 1.0}, std::vector{1.0, 1.0, 1.0}, 2, {1, 1}).ok);
}

TEST(Compare, ScalesByRowAndNamesTheWorst) {
  const std::vector<double> expected{1000, 1, 1, 1}, got{1000.5, 1, 1, 1.01};
  EXPECT_TRUE(oracle::compare(expected, got, 4, {0, 1e-3}).ok);
  const auto comparison = oracle::compare(expected, got, 2, {0, 1e-3});
  EXPECT_FALSE(comparison.ok);
  EXPECT_EQ(comparison.failed, 1);
  EXPECT_EQ(comparison.max_abs_err, 0.5);
  EXPECT_EQ(oracle::describe(comparison),
            "row 1, column 1: expected 1, got 1.01 (error 0.01, allowed 0.001); 1 of 4 numbers are off");
}

TEST(Compare, RuleOfTheVariants) {
  constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
  EXPECT_DOUBLE_EQ(oracle::first_tolerance(kEpsilon).absolute, 2e-5);
  EXPECT_DOUBLE_EQ(oracle::first_tolerance(0x1p-52).absolute, 2e-5 * 0x1p-29);
  const auto forward = oracle::tolerance_against_first(1e-6, kEpsilon);
  EXPECT_EQ(forward.absolute, 2e-6);
  EXPECT_EQ(forward.relative, 4 * kEpsilon);
  EXPECT_EQ(oracle::tolerance_against_first(1e-6, kEpsilon, oracle::kGradientFactor).absolute, 3e-6);
}

}  // namespace
}  // namespace ennead
