// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention() against the oracle and against literal values of public reports.
#include "ennead/attention.h"

#include <gtest/gtest.h>

#include <limits>

#include "ennead/tape.h"
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
const oracle::Tolerance kSixDigits{6e-7, 6e-7};

template <class T>
class Attention : public testing::Test {
 protected:
  Context context_ = test::poisoned_context();
  test::Random random_{7};

  /// Output and log-sum-exp of a call must be what the oracle says.
  void expect_right(const test::Operands<T>& operands, AttentionOptions<T> options) {
    options.return_lse = true;
    const auto expected = test::expected_attention(operands, options);
    const auto got = scaled_dot_product_attention(operands.query, operands.key, operands.value, options);
    EXPECT_TRUE(close(expected.out, got.output, attention_tolerance<T>()));
    EXPECT_TRUE(close(expected.lse, got.lse, attention_tolerance<T>()));
  }

  AttentionResult<T> attend(const test::Operands<T>& operands, AttentionOptions<T> options = {}) {
    options.return_lse = true;
    return scaled_dot_product_attention(operands.query, operands.key, operands.value, options);
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Attention, Types);

// Mutants: scale left out; mask by row; lse in base 2.
TYPED_TEST(Attention, GoldenCausal) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    const auto got = this->attend(test::golden_operands<TypeParam>(context), {.is_causal = true});
    EXPECT_TRUE(close({1, 10, 1.107042, 11.070418, 2.203336, 22.033363, 2.628058, 26.280581}, got.output, kSixDigits));
    EXPECT_TRUE(close({0.707107, 1.527429, 1.620621, 2.804065}, got.lse, kSixDigits));
  });
}

// The output's memory runs token by token, so that merging the heads is a change of view.
TYPED_TEST(Attention, OutputMergesWithoutACopy) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 3, 3, 5, 5, 4, 6}, this->random_);
  const auto output = this->attend(operands).output;
  EXPECT_EQ(output.sizes(), (Dims{2, 3, 5, 6}));
  EXPECT_TRUE(transpose(output, 1, 2).is_contiguous());
}

// Mutants: a tile's tail forgotten; head and batch mixed up; value_dim taken from the keys.
TYPED_TEST(Attention, OddSizes) {
  for (const std::int64_t length : {1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 257}) {
    for (const std::int64_t head_dim : {1, 24, 63, 80}) {
      SCOPED_TRACE("length " + std::to_string(length) + ", head_dim " + std::to_string(head_dim));
      const auto operands = test::random_operands<TypeParam>(
          this->context_, {2, 2, 2, length, length, head_dim, head_dim == 24 ? 9 : head_dim}, this->random_);
      this->expect_right(operands, {.is_causal = true});
      this->expect_right(operands, {});
    }
  }
}

// More keys than queries, fewer, none; both alignments. Mutant: the other corner of the matrix.
TYPED_TEST(Attention, QueriesAndKeysOfDifferentNumber) {
  for (const auto& [num_queries, num_keys] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 8}, {3, 130}, {64, 65}, {65, 64}, {130, 3}, {34, 1}, {5, 0}, {0, 5}}) {
    SCOPED_TRACE(sentence(num_queries, " queries, ", num_keys, " keys"));
    const auto operands =
        test::random_operands<TypeParam>(this->context_, {2, 3, 3, num_queries, num_keys, 32, 16}, this->random_);
    this->expect_right(operands, {});
    this->expect_right(operands, {.is_causal = true, .align = CausalAlign::top_left});
    this->expect_right(operands, {.is_causal = true, .align = CausalAlign::bottom_right});
  }
}

// Decoding: one query at the end of four keys. Top left sees key 0 alone, the same token for ever.
TYPED_TEST(Attention, AlignmentOfASingleQuery) {
  auto operands = test::golden_operands<TypeParam>(this->context_);
  operands.query = narrow(operands.query, 2, 3, 1);
  AttentionOptions<TypeParam> options{.is_causal = true};
  EXPECT_TRUE(close({1, 10}, this->attend(operands, options).output, kSixDigits));
  options.align = CausalAlign::bottom_right;
  EXPECT_TRUE(close({2.628058, 26.280581}, this->attend(operands, options).output, kSixDigits));
}

// More queries than keys at the bottom right: the first rows see nothing and are zero, not NaN.
TYPED_TEST(Attention, FirstQueriesBeforeAllKeys) {
  auto operands = test::golden_operands<TypeParam>(this->context_);
  operands.key = narrow(operands.key, 2, 0, 2);
  operands.value = narrow(operands.value, 2, 0, 2);
  const auto got = this->attend(operands, {.is_causal = true, .align = CausalAlign::bottom_right});
  EXPECT_TRUE(close({0, 0, 0, 0, 1, 10, 1.669762, 16.697615}, got.output, kSixDigits));
  EXPECT_EQ(got.lse.at({0, 0, 0}), static_cast<TypeParam>(-kInfinity));
  EXPECT_EQ(got.lse.at({0, 0, 1}), static_cast<TypeParam>(-kInfinity));
}

// A sequence attended in pieces that end where the whole ends gives the whole's bits.
TYPED_TEST(Attention, QuerySplitsKeepTheBits) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 2, 2, 70, 70, 16, 16}, this->random_);
  const auto whole = this->attend(operands, {.is_causal = true});
  for (const std::int64_t start : {1, 33, 64, 69}) {
    test::Operands<TypeParam> rest = operands;
    rest.query = narrow(operands.query, 2, start, 70 - start);
    const auto part = this->attend(rest, {.is_causal = true, .align = CausalAlign::bottom_right});
    EXPECT_TRUE(same_bits(narrow(whole.output, 2, start, 70 - start), part.output)) << start;
    EXPECT_TRUE(same_bits(narrow(whole.lse, 2, start, 70 - start), part.lse)) << start;
  }
}

// Mutants: a scale of 0 read as "not given"; the sign lost; scale from a padded head size.
TYPED_TEST(Attention, Scale) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, 9, 9, 80, 8}, this->random_);
  for (const double scale : {0.0, -0.25, 1.0, 1 / std::sqrt(80.0)}) this->expect_right(operands, {.scale = scale});
  const auto with_default = this->attend(operands), explicitly = this->attend(operands, {.scale = 1 / std::sqrt(80.0)});
  EXPECT_TRUE(same_bits(with_default.output, explicitly.output));
}

// Mutants: heads repeated along the sequence; head % kv_heads in place of head / group.
TYPED_TEST(Attention, GroupedHeads) {
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
    const auto operands =
        test::random_operands<TypeParam>(this->context_, {2, 6, kv_heads, 11, 13, 8, 8}, this->random_);
    this->expect_right(operands, {.is_causal = true, .enable_gqa = true});
  }
  // Keys kept token by token, [batch, num_keys, kv_heads, head_dim], seen as the function takes them.
  auto operands = test::random_operands<TypeParam>(this->context_, {1, 4, 2, 3, 3, 8, 8}, this->random_);
  operands.key = transpose(contiguous(transpose(operands.key, 1, 2)), 1, 2);
  operands.value = transpose(contiguous(transpose(operands.value, 1, 2)), 1, 2);
  this->expect_right(operands, {.enable_gqa = true});
}

// One operand at a time behind odd strides; then a key repeated by stride 0.
TYPED_TEST(Attention, AnyStrides) {
  const auto plain = test::random_operands<TypeParam>(this->context_, {1, 4, 4, 62, 62, 24, 24}, this->random_);
  const auto expected = this->attend(plain, {.is_causal = true}).output;
  for (const test::Layout layout : test::kLayouts) {
    for (int which = 0; which < 3; ++which) {
      test::Operands<TypeParam> odd = plain;
      Tensor<TypeParam>& operand = which == 0 ? odd.query : which == 1 ? odd.key : odd.value;
      operand = test::with_layout(operand, layout);
      EXPECT_TRUE(same_bits(expected, this->attend(odd, {.is_causal = true}).output))
          << "layout " << static_cast<int>(layout) << ", operand " << which;
    }
  }
  test::Operands<TypeParam> repeated = plain;
  repeated.key = Tensor<TypeParam>(plain.key.storage(), plain.key.data(), plain.key.sizes(), {0, 0, 24, 1});
  this->expect_right(repeated, {});
}

// Mutant: a reduction split by the number of threads, or over batch neighbours.
TYPED_TEST(Attention, SameBitsForAnyThreadsAndNeighbours) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {3, 2, 2, 65, 65, 24, 24}, this->random_);
  const auto expected = this->attend(operands, {.is_causal = true});
  for (const int threads : {1, 3, 8}) {
    const Context other = test::poisoned_context({.threads = threads});
    const test::Operands<TypeParam> moved{copy_of(operands.query, other), copy_of(operands.key, other),
                                          copy_of(operands.value, other)};
    EXPECT_TRUE(same_bits(expected.output, this->attend(moved, {.is_causal = true}).output)) << threads;
  }
  for (std::int64_t b = 0; b < 3; ++b) {
    const test::Operands<TypeParam> alone{narrow(operands.query, 0, b, 1), narrow(operands.key, 0, b, 1),
                                          narrow(operands.value, 0, b, 1)};
    EXPECT_TRUE(same_bits(narrow(expected.output, 0, b, 1), this->attend(alone, {.is_causal = true}).output)) << b;
  }
}

// Large scores: the row maximum is subtracted. Mutants: the maximum floored at a constant; 1e-6 added to the sum.
TYPED_TEST(Attention, ScoresFarFromZero) {
  const Context& context = this->context_;
  test::Operands<TypeParam> operands{test::from_doubles<TypeParam>(context, {1, 1, 1, 1}, {1}),
                                     test::from_doubles<TypeParam>(context, {1, 1, 4, 1}, {-2e4, -2e4, -2e4, -2e4}),
                                     test::from_doubles<TypeParam>(context, {1, 1, 4, 1}, {1, 2, 3, 6})};
  EXPECT_TRUE(close({3}, this->attend(operands, {.scale = 1.0}).output, kSixDigits));
  EXPECT_TRUE(close({-2e4 + std::log(4.0)}, this->attend(operands, {.scale = 1.0}).lse, kSixDigits));
  operands.key = test::from_doubles<TypeParam>(context, {1, 1, 4, 1}, {1e30, -1e30, 1e30, 0});
  EXPECT_TRUE(close({2}, this->attend(operands, {.scale = 1.0}).output, kSixDigits));
}

// Adding a constant to a row of scores changes nothing.
TYPED_TEST(Attention, ShiftInvariance) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, 7, 9, 8, 8}, this->random_);
  const auto expected = test::expected_attention(operands, AttentionOptions<TypeParam>{});
  for (const double shift : {-512.0, 300.0}) {
    AttentionOptions<TypeParam> shifted;
    shifted.attn_mask.bias = Tensor<TypeParam>::full(this->context_, {1, 1}, static_cast<TypeParam>(shift));
    const double rounding = 4 * 512 * static_cast<double>(std::numeric_limits<TypeParam>::epsilon());
    EXPECT_TRUE(close(expected.out, this->attend(operands, shifted).output, {rounding, 0}));
  }
}

// A long row of equal scores is the mean of its values. Mutant: sums in less than the element type.
TYPED_TEST(Attention, LongRowOfEqualScores) {
  constexpr std::int64_t kKeys = 65536;
  auto operands = test::random_operands<TypeParam>(this->context_, {1, 1, 1, 1, kKeys, 4, 4}, this->random_);
  for (std::int64_t i = 0; i < operands.query.num_elements(); ++i) operands.query.data()[i] = 0;
  std::vector<double> mean(4, 0.0);
  for (std::int64_t i = 0; i < kKeys * 4; ++i) {
    mean[static_cast<std::size_t>(i % 4)] += static_cast<double>(operands.value.data()[i]) / kKeys;
  }
  EXPECT_TRUE(close(mean, this->attend(operands).output, {1e-6, 0}));
}

// NaN in what is seen must show, in exactly the rows that see it.
TYPED_TEST(Attention, VisibleNaNPropagates) {
  for (const bool in_value : {false, true}) {
    auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, 21, 21, 8, 8}, this->random_);
    (in_value ? operands.value : operands.key).at({0, 1, 13, 5}) = std::numeric_limits<TypeParam>::quiet_NaN();
    this->expect_right(operands, {.is_causal = true});
  }
}

TYPED_TEST(Attention, RefusesInOneSentence) {
  const Context& context = this->context_;
  const auto tensor = [&](const Dims& sizes) { return Tensor<TypeParam>::full(context, sizes, TypeParam{1}); };
  const auto refusal = [&](const Dims& query, const Dims& key, const Dims& value, AttentionOptions<TypeParam> options) {
    return check_attention(tensor(query), tensor(key), tensor(value), options).reason();
  };
  const Dims good{2, 4, 8, 16};
  EXPECT_EQ(refusal(good, good, good, {}), "");
  EXPECT_EQ(refusal({4, 8, 16}, good, good, {}),
            "scaled_dot_product_attention: expected query [batch, heads, num_queries, head_dim], got [4, 8, 16]");
  EXPECT_EQ(refusal(good, {2, 4, 8, 15}, good, {}),
            "scaled_dot_product_attention: expected key [2, kv_heads, num_keys, 16], got [2, 4, 8, 15]");
  EXPECT_EQ(refusal(good, good, {2, 4, 7, 16}, {}),
            "scaled_dot_product_attention: expected value [2, 4, 8, value_dim], got [2, 4, 7, 16]");
  EXPECT_EQ(refusal(good, {2, 2, 8, 16}, {2, 2, 8, 16}, {}),
            "scaled_dot_product_attention: expected as many key heads as query heads, 4, or enable_gqa, got 2");
  EXPECT_EQ(refusal(good, {2, 3, 8, 16}, {2, 3, 8, 16}, {.enable_gqa = true}),
            "scaled_dot_product_attention: expected a number of key heads that divides the 4 query heads, got 3");
  EXPECT_EQ(refusal(good, good, good, {.scale = kInfinity}),
            "scaled_dot_product_attention: expected a finite scale, got inf");
  EXPECT_EQ(
      refusal({2, 4, 8, 0}, {2, 4, 8, 0}, good, {}),
      "scaled_dot_product_attention: expected at least 1 head and a head_dim of at least 1, got query [2, 4, 8, 0]");
  EXPECT_EQ(check_attention(tensor(good), tensor(good), {}, {}).reason(),
            "scaled_dot_product_attention: expected a value, got an empty handle");
  EXPECT_TRUE(test::refuses([&] { scaled_dot_product_attention(tensor({1}), tensor(good), tensor(good)); },
                            {"expected query", "got [1]"}));
}

// A result whose gradient would be missing in silence is refused.
TYPED_TEST(Attention, RefusesAGradient) {
  auto operands = test::random_operands<TypeParam>(this->context_, {1, 1, 1, 3, 3, 2, 2}, this->random_);
  Tape tape;
  this->context_.set_tape(&tape);
  EXPECT_TRUE(check_attention(operands.query, operands.key, operands.value, {}).ok());
  tape.watch(operands.value);
  EXPECT_TRUE(test::refuses([&] { this->attend(operands); },
                            {"expected operands without a gradient", "variants 1-4 have theirs"}));
  this->context_.set_tape(nullptr);
}

// The trace says what was needed and where the call stands; a dry run computes nothing.
TYPED_TEST(Attention, TraceAndDryRun) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 3, 3, 10, 10, 8, 4}, this->random_);
  Trace trace;
  this->context_.set_trace(&trace);
  scaled_dot_product_attention(operands.query, operands.key, operands.value, {.is_causal = true});
  const int line = __LINE__ - 1;
  this->context_.set_trace(nullptr);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_STREQ(trace.events[0].op, "scaled_dot_product_attention");
  EXPECT_EQ(trace.events[0].where.line(), static_cast<unsigned>(line));
  EXPECT_EQ(trace.events[0].useful_flops, 2.0 * 2 * 3 * 55 * (8 + 4));
  EXPECT_GE(trace.events[0].executed_flops, trace.events[0].useful_flops);
  EXPECT_EQ(trace.events[0].operands.size(), 4u);

  const Context dry = test::dry_context();
  const auto sizes = Dims{2, 3, 1 << 20, 64};
  const auto huge = Tensor<TypeParam>::uninitialized(dry, sizes);
  EXPECT_EQ(scaled_dot_product_attention(huge, huge, huge, {.is_causal = true}).output.sizes(), sizes);
}

}  // namespace
}  // namespace ennead
