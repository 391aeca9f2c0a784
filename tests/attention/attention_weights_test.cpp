// SPDX-License-Identifier: Apache-2.0
// attention_weights() against the oracle: every head, and their mean.
#include <gtest/gtest.h>

#include <limits>

#include "ennead/attention.h"
#include "ennead/trace.h"
#include "support/attention.h"
#include "support/contexts.h"
#include "support/expect.h"

namespace ennead {
namespace {

using test::attention_tolerance;
using test::close;
using test::copy_of;
using test::same_bits;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The mean over heads of [batch, heads, rows], in float64.
std::vector<double> mean_over_heads(const std::vector<double>& weights, std::int64_t batch, std::int64_t heads) {
  const auto size = static_cast<std::int64_t>(weights.size()) / (batch * heads);
  std::vector<double> mean(static_cast<std::size_t>(batch * size));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(weights.size()); ++i) {
    const std::int64_t b = i / (heads * size);
    mean[static_cast<std::size_t>(b * size + i % size)] +=
        weights[static_cast<std::size_t>(i)] / static_cast<double>(heads);
  }
  return mean;
}

template <class T>
class AttentionWeights : public testing::Test {
 protected:
  Context context_ = test::poisoned_context();
  test::Random random_{13};

  void expect_right(const test::Operands<T>& operands, const AttentionOptions<T>& options) {
    const auto expected = test::expected_attention(operands, options).weights;
    const auto each = attention_weights(operands.query, operands.key, options, false);
    const auto mean = attention_weights(operands.query, operands.key, options, true);
    EXPECT_TRUE(close(expected, each, attention_tolerance<T>()));
    EXPECT_TRUE(close(mean_over_heads(expected, operands.query.size(0), operands.query.size(1)), mean,
                      attention_tolerance<T>()));
    // What is blocked is exactly 0, not merely small.
    std::size_t i = 0;
    test::for_each_index(each.sizes(), [&](const Dims& at) {
      if (expected[i++] == 0) {
        EXPECT_EQ(test::element(each, at), T{0});
      }
    });
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionWeights, Types);

// Sizes around the block of 64 rows. Mutants: the last block's rows; keys between blocks' ends left NaN.
TYPED_TEST(AttentionWeights, OddSizes) {
  for (const auto& [num_queries, num_keys] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {4, 4}, {63, 63}, {64, 64}, {65, 65}, {130, 129}, {3, 70}, {70, 3}, {1, 9}}) {
    SCOPED_TRACE(sentence(num_queries, " queries, ", num_keys, " keys"));
    const auto operands =
        test::random_operands<TypeParam>(this->context_, {2, 3, 3, num_queries, num_keys, 10, 1}, this->random_);
    this->expect_right(operands, {});
    this->expect_right(operands, {.is_causal = true});
    this->expect_right(operands, {.is_causal = true, .align = CausalAlign::bottom_right, .scale = 0.7});
  }
}

TYPED_TEST(AttentionWeights, MasksAndGroupedHeads) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 4, 2, 67, 70, 8, 1}, this->random_);
  auto bias = test::random_tensor<TypeParam>(this->context_, {8, 67, 70}, this->random_);
  for (std::int64_t i = 0; i < bias.num_elements(); i += 5) bias.data()[i] = static_cast<TypeParam>(-kInfinity);
  const AttentionMask<TypeParam> mask{test::random_mask(this->context_, {2, 1, 67, 70}, this->random_, 0.7), bias};
  this->expect_right(operands, {.attn_mask = mask, .enable_gqa = true});
  this->expect_right(operands, {.attn_mask = mask, .is_causal = true, .enable_gqa = true});
}

// Rows sum to 1, rows without a key to 0. Mutant: a row of NaN where nothing is allowed.
TYPED_TEST(AttentionWeights, RowSums) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, 6, 6, 8, 1}, this->random_);
  auto keep = Tensor<bool>::full(this->context_, {6, 1}, true);
  keep.at({4, 0}) = false;
  const auto mean = attention_weights<TypeParam>(operands.query, operands.key,
                                                 {.attn_mask = AttentionMask<TypeParam>::allow(keep)}, true);
  for (std::int64_t row = 0; row < 6; ++row) {
    double sum = 0;
    for (std::int64_t key = 0; key < 6; ++key) sum += static_cast<double>(mean.at({0, row, key}));
    EXPECT_NEAR(sum, row == 4 ? 0 : 1, 4e-7) << row;
  }
}

// Mutant: exp(score - lse) with a log-sum-exp rounded to T.
TYPED_TEST(AttentionWeights, LargeScoresStillSumToOne) {
  auto operands = test::random_operands<TypeParam>(this->context_, {1, 1, 1, 5, 50, 4, 1}, this->random_);
  for (const double scale : {1e5, 1e30}) {
    const auto weights = attention_weights<TypeParam>(operands.query, operands.key, {.scale = scale}, false);
    for (std::int64_t row = 0; row < 5; ++row) {
      double sum = 0;
      for (std::int64_t key = 0; key < 50; ++key) sum += static_cast<double>(weights.at({0, 0, row, key}));
      EXPECT_NEAR(sum, 1, 1e-5) << scale;
    }
  }
}

TYPED_TEST(AttentionWeights, NothingBehindAMaskIsRead) {
  auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, 9, 9, 8, 1}, this->random_);
  auto bias = Tensor<TypeParam>::full(this->context_, {1, 9}, 0);
  bias.at({0, 3}) = static_cast<TypeParam>(-kInfinity);
  auto keep = Tensor<bool>::full(this->context_, {1, 9}, true);
  keep.at({0, 8}) = false;
  const AttentionOptions<TypeParam> options{.attn_mask = {keep, bias}};
  const auto before = attention_weights(operands.query, operands.key, options, true);
  for (const std::int64_t key : {3, 8}) operands.key.at({0, 1, key, 2}) = static_cast<TypeParam>(kNaN);
  EXPECT_TRUE(same_bits(before, attention_weights(operands.query, operands.key, options, true)));
  operands.key.at({0, 1, 5, 2}) = static_cast<TypeParam>(kNaN);  // and what is seen must show
  this->expect_right(operands, {.is_causal = true});
}

// Heads are summed in order. Mutants: the sum split among threads; a neighbour's rows in the same product.
TYPED_TEST(AttentionWeights, SameBitsForAnyThreadsAndNeighbours) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {3, 4, 4, 70, 70, 8, 1}, this->random_);
  const AttentionOptions<TypeParam> causal{.is_causal = true};
  const auto expected = attention_weights(operands.query, operands.key, causal, true);
  for (const int threads : {1, 3, 8}) {
    const Context other = test::poisoned_context({.threads = threads});
    EXPECT_TRUE(same_bits(
        expected, attention_weights(copy_of(operands.query, other), copy_of(operands.key, other), causal, true)));
  }
  EXPECT_TRUE(same_bits(narrow(expected, 0, 1, 1), attention_weights(narrow(operands.query, 0, 1, 1),
                                                                     narrow(operands.key, 0, 1, 1), causal, true)));
}

// The mean needs no memory for all heads. Mutant: every head materialised, then averaged.
TYPED_TEST(AttentionWeights, MeanTakesNoMemoryForEveryHead) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 12, 12, 256, 256, 8, 1}, this->random_);
  this->context_.arena().reset_peak();
  const std::size_t before = this->context_.arena().peak_bytes();
  const auto mean = attention_weights(operands.query, operands.key, AttentionOptions<TypeParam>{}, true);
  const std::size_t one_head_each = 2u * 256 * 256 * sizeof(TypeParam);
  EXPECT_LT(this->context_.arena().peak_bytes() - before, 3 * one_head_each);
}

TYPED_TEST(AttentionWeights, TraceAndRefusals) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 3, 3, 10, 10, 8, 1}, this->random_);
  Trace trace;
  this->context_.set_trace(&trace);
  attention_weights<TypeParam>(operands.query, operands.key, {.is_causal = true}, true);
  this->context_.set_trace(nullptr);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].useful_flops, 2.0 * 2 * 3 * 55 * 8);
  EXPECT_EQ(trace.events[0].executed_flops, 2.0 * 2 * 3 * 100 * 8);
  EXPECT_TRUE(
      test::refuses([&] { attention_weights<TypeParam>(operands.query, narrow(operands.key, 3, 0, 7), {}, true); },
                    {"attention_weights: expected key [2, kv_heads, num_keys, 8], got [2, 3, 10, 7]"}));
}

}  // namespace
}  // namespace ennead
