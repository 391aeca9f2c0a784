// SPDX-License-Identifier: Apache-2.0
// Dense masks: what their values mean, how they combine, their one shape rule.
#include <gtest/gtest.h>

#include <limits>

#include "ennead/attention.h"
#include "support/attention.h"
#include "support/contexts.h"
#include "support/expect.h"

namespace ennead {
namespace {

using test::attention_tolerance;
using test::close;
using test::mask_at;
using test::same_bits;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const oracle::Tolerance kSixDigits{6e-7, 6e-7};

template <class T>
class Mask : public testing::Test {
 protected:
  Context context_ = test::poisoned_context();
  test::Random random_{11};

  AttentionResult<T> attend(const test::Operands<T>& operands, AttentionOptions<T> options) {
    options.return_lse = true;
    return scaled_dot_product_attention(operands.query, operands.key, operands.value, options);
  }
  AttentionResult<T> attend(const test::Operands<T>& operands, const AttentionMask<T>& mask) {
    return attend(operands, AttentionOptions<T>{.attn_mask = mask});
  }
  void expect_right(const test::Operands<T>& operands, const AttentionOptions<T>& options) {
    const auto expected = test::expected_attention(operands, options);
    const auto got = attend(operands, options);
    EXPECT_TRUE(close(expected.out, got.output, attention_tolerance<T>()));
    EXPECT_TRUE(close(expected.lse, got.lse, attention_tolerance<T>()));
  }
  Tensor<bool> booleans(const Dims& sizes, std::initializer_list<int> values) {
    auto mask = Tensor<bool>::uninitialized(context_, sizes);
    bool* out = mask.data();
    for (const int value : values) *out++ = value != 0;
    return mask;
  }
  Tensor<T> numbers(const Dims& sizes, const std::vector<double>& values) {
    return test::from_doubles<T>(context_, sizes, values);
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Mask, Types);

// The defect of the original's variant 6: the book's buffer (true above the diagonal, meant to block)
// handed to a function in which true allows. It looks at the future only, and its last row is empty.
TYPED_TEST(Mask, DirectionIsSaidByName) {
  const auto operands = test::golden_operands<TypeParam>(this->context_);
  const auto buffer = causal_mask(this->context_, 4);
  const auto right = this->attend(operands, AttentionMask<TypeParam>::block(buffer));
  const auto inverted = this->attend(operands, AttentionMask<TypeParam>::allow(buffer));
  EXPECT_TRUE(close({1, 10, 1.107042, 11.070418, 2.203336, 22.033363, 2.628058, 26.280581}, right.output, kSixDigits));
  EXPECT_TRUE(close({3.055807, 30.558072}, narrow(inverted.output, 2, 1, 1), kSixDigits));
  EXPECT_TRUE(close({0, 0}, narrow(inverted.output, 2, 3, 1), {}));
  EXPECT_EQ(inverted.lse.at({0, 0, 3}), static_cast<TypeParam>(-kInfinity));
}

// The same pattern by is_causal and by a dense mask.
TYPED_TEST(Mask, LowerTriangleIsCausal) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 2, 2, 67, 67, 16, 16}, this->random_);
  const auto dense = AttentionMask<TypeParam>::block(causal_mask(this->context_, 67));
  const auto expected = test::to_doubles(this->attend(operands, {.is_causal = true}).output);
  EXPECT_TRUE(close(expected, this->attend(operands, dense).output, test::rounding<TypeParam>(2)));
}

// A row without an allowed key is zero and its log-sum-exp -inf; never NaN, never the mean of V.
TYPED_TEST(Mask, RowWithoutAKey) {
  const auto operands = test::golden_operands<TypeParam>(this->context_);
  const auto first_row_blocked = this->booleans({4, 1}, {0, 1, 1, 1});
  const auto by_boolean = this->attend(operands, AttentionMask<TypeParam>::allow(first_row_blocked));
  const auto by_bias =
      this->attend(operands, AttentionMask<TypeParam>::additive(this->numbers({4, 1}, {-kInfinity, 0, 0, 0})));
  for (const auto& got : {by_boolean, by_bias}) {
    EXPECT_TRUE(close({0, 0}, narrow(got.output, 2, 0, 1), {}));
    EXPECT_EQ(got.lse.at({0, 0, 0}), static_cast<TypeParam>(-kInfinity));
  }
  const auto large = test::random_operands<TypeParam>(this->context_, {1, 1, 1, 8, 8, 8, 8}, this->random_);
  this->expect_right(large,
                     {.attn_mask = AttentionMask<TypeParam>::allow(this->booleans({8, 1}, {1, 1, 1, 1, 0, 0, 0, 0}))});
}

// A band of two and three padded keys: neither empties a row, both together do.
TYPED_TEST(Mask, TwoMasksThatEmptyARowTogether) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 2, 2, 6, 6, 8, 8}, this->random_);
  auto band = Tensor<bool>::uninitialized(this->context_, {6, 6});
  test::for_each_index(band.sizes(),
                       [&](const Dims& at) { test::element(band, at) = at[1] <= at[0] && at[0] - at[1] < 2; });
  const auto keep = this->booleans({1, 6}, {1, 1, 1, 0, 0, 0});
  const auto got = this->attend(operands, AttentionMask<TypeParam>::allow(logical_and(band, keep)));
  EXPECT_TRUE(close(std::vector<double>(2 * 2 * 2 * 8, 0.0), narrow(got.output, 2, 4, 2), {}));
  this->expect_right(operands, {.attn_mask = AttentionMask<TypeParam>::allow(logical_and(band, keep))});
}

// Padding and causality are ANDed, not added as two large penalties that compete.
TYPED_TEST(Mask, PaddingAndCausal) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {1, 13, 13, 7, 7, 37, 37}, this->random_);
  const auto keep = AttentionMask<TypeParam>::allow(this->booleans({1, 7}, {0, 1, 1, 0, 0, 1, 0}));
  this->expect_right(operands, {.attn_mask = keep, .is_causal = true});
  const auto got = this->attend(operands, {.attn_mask = keep, .is_causal = true});
  EXPECT_TRUE(close(std::vector<double>(13 * 37, 0.0), narrow(got.output, 2, 0, 1), {}));
}

// All kinds at once: boolean, additive and causal. Mutant: the bias forgotten when a boolean mask is there.
TYPED_TEST(Mask, AllKindsAtOnce) {
  for (const auto& [num_queries, num_keys] : std::vector<std::pair<std::int64_t, std::int64_t>>{{9, 9}, {65, 70}}) {
    const auto operands =
        test::random_operands<TypeParam>(this->context_, {2, 3, 3, num_queries, num_keys, 8, 8}, this->random_);
    auto bias = test::random_tensor<TypeParam>(this->context_, {1, 3, num_queries, num_keys}, this->random_);
    bias.at({0, 1, 2, 3}) = static_cast<TypeParam>(-kInfinity);
    const AttentionMask<TypeParam> both{
        test::random_mask(this->context_, {2, 1, num_queries, num_keys}, this->random_, 0.7), bias};
    for (const CausalAlign align : {CausalAlign::top_left, CausalAlign::bottom_right}) {
      this->expect_right(operands, {.attn_mask = both, .is_causal = true, .align = align, .scale = 0.3});
    }
    this->expect_right(operands, {.attn_mask = both});
  }
}

// A float mask of zeros and ones is added, as its type says; it masks nothing.
TYPED_TEST(Mask, ZeroOneFloatsAreAdded) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, 8, 8, 3, 3}, this->random_);
  auto triangle = Tensor<TypeParam>::full(this->context_, {8, 8}, 0);
  test::for_each_index(triangle.sizes(), [&](const Dims& at) {
    if (at[1] <= at[0]) test::element(triangle, at) = 1;
  });
  this->expect_right(operands, {.attn_mask = AttentionMask<TypeParam>::additive(triangle)});
}

// Masks that block nothing change nothing.
TYPED_TEST(Mask, NeutralMasks) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 4, 4, 8, 8, 16, 16}, this->random_);
  const auto plain = test::to_doubles(this->attend(operands, AttentionMask<TypeParam>{}).output);
  const oracle::Tolerance ulp{0, static_cast<double>(std::numeric_limits<TypeParam>::epsilon())};
  const auto all = AttentionMask<TypeParam>::allow(Tensor<bool>::full(this->context_, {8, 8}, true));
  const auto none = AttentionMask<TypeParam>::block(Tensor<bool>::full(this->context_, {2, 1, 1, 8}, false));
  const auto zero = AttentionMask<TypeParam>::additive(Tensor<TypeParam>::full(this->context_, {1, 8}, 0));
  for (const auto& neutral : {all, none, zero}) EXPECT_TRUE(close(plain, this->attend(operands, neutral).output, ulp));
}

// Key lengths per batch item: what lies beyond a length cannot be felt.
TYPED_TEST(Mask, KeysBeyondTheLengthChangeNothing) {
  auto operands = test::random_operands<TypeParam>(this->context_, {8, 2, 2, 16, 128, 8, 8}, this->random_);
  const std::int64_t lengths[] = {24, 125, 64, 33, 97, 65, 31, 80};
  auto keep = Tensor<bool>::uninitialized(this->context_, {8, 1, 1, 128});
  test::for_each_index(keep.sizes(), [&](const Dims& at) { test::element(keep, at) = at[3] < lengths[at[0]]; });
  const auto mask = AttentionMask<TypeParam>::allow(keep);
  const auto before = this->attend(operands, mask);
  this->expect_right(operands, {.attn_mask = mask});
  test::for_each_index(operands.key.sizes(), [&](const Dims& at) {
    if (at[2] < lengths[at[0]]) return;
    test::element(operands.key, at) = static_cast<TypeParam>(at[3] % 2 == 0 ? kNaN : kInfinity);
    test::element(operands.value, at) = static_cast<TypeParam>(kNaN);
  });
  const auto after = this->attend(operands, mask);
  EXPECT_TRUE(same_bits(before.output, after.output));
  EXPECT_TRUE(same_bits(before.lse, after.lse));
}

// NaN and Inf behind a mask of any kind do not leak. Mutants: 0 * NaN; NaN + -inf.
TYPED_TEST(Mask, NothingBehindAMaskIsRead) {
  for (const std::int64_t length : {5, 40}) {
    auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, length, length, 8, 8}, this->random_);
    std::vector<double> zeros_and_blocks(static_cast<std::size_t>(length), 0.0);
    auto keep = Tensor<bool>::full(this->context_, {1, length}, true);
    for (const std::int64_t key : {std::int64_t{2}, length - 1}) {
      keep.at({0, key}) = false;
      zeros_and_blocks[static_cast<std::size_t>(key)] = -kInfinity;
    }
    const auto by_boolean = AttentionMask<TypeParam>::allow(keep);
    const auto by_bias = AttentionMask<TypeParam>::additive(this->numbers({1, length}, zeros_and_blocks));
    const auto clean_boolean = this->attend(operands, by_boolean), clean_bias = this->attend(operands, by_bias);
    for (const std::int64_t key : {std::int64_t{2}, length - 1}) {
      for (std::int64_t d = 0; d < 8; ++d) {
        operands.key.at({0, 0, key, d}) = static_cast<TypeParam>(kNaN);
        operands.key.at({0, 1, key, d}) = static_cast<TypeParam>(kInfinity);
        operands.value.at({0, 0, key, d}) = static_cast<TypeParam>(kInfinity);
        operands.value.at({0, 1, key, d}) = static_cast<TypeParam>(kNaN);
      }
    }
    EXPECT_TRUE(same_bits(clean_boolean.output, this->attend(operands, by_boolean).output)) << length;
    EXPECT_TRUE(same_bits(clean_bias.output, this->attend(operands, by_bias).output)) << length;
  }
}

// Every legal shape, against the rule as the tests write it.
TYPED_TEST(Mask, ShapesOfTheOneRule) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 3, 3, 5, 7, 4, 4}, this->random_);
  for (const Dims& sizes : {Dims{5, 7}, Dims{1, 7}, Dims{5, 1}, Dims{1, 1}, Dims{6, 5, 7}, Dims{1, 5, 7}, Dims{6, 1, 7},
                            Dims{2, 3, 5, 7}, Dims{1, 3, 5, 7}, Dims{2, 1, 1, 7}, Dims{2, 3, 5, 1}}) {
    SCOPED_TRACE(to_string(sizes));
    this->expect_right(
        operands,
        {.attn_mask = AttentionMask<TypeParam>::allow(test::random_mask(this->context_, sizes, this->random_, 0.6))});
    this->expect_right(operands, {.attn_mask = AttentionMask<TypeParam>::additive(
                                      test::random_tensor<TypeParam>(this->context_, sizes, this->random_))});
  }
}

TYPED_TEST(Mask, OddStrides) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 3, 3, 5, 7, 4, 4}, this->random_);
  const auto mask = test::random_mask(this->context_, {2, 3, 5, 7}, this->random_, 0.6);
  const auto expected = this->attend(operands, AttentionMask<TypeParam>::allow(mask)).output;
  for (const test::Layout layout : {test::Layout::transposed, test::Layout::reversed}) {
    const auto odd = test::with_layout(mask, layout);
    EXPECT_TRUE(same_bits(expected, this->attend(operands, AttentionMask<TypeParam>::allow(odd)).output));
    const auto turned = AttentionMask<TypeParam>::block(AttentionMask<TypeParam>::block(odd).allowed);
    EXPECT_TRUE(same_bits(mask, turned.allowed));
  }
  // A repeated axis stays repeated: no memory for its copies.
  const Tensor<bool> repeated(mask.storage(), mask.data(), {4, 5, 7}, {0, 7, 1});
  const auto turned = AttentionMask<TypeParam>::block(repeated).allowed;
  EXPECT_EQ(turned.strides(), (Dims{0, 7, 1}));
  EXPECT_NE(turned.at({3, 4, 6}), repeated.at({3, 4, 6}));
}

// Shapes that another rule would take: [batch, L, L], [heads, L, L], one axis.
TYPED_TEST(Mask, RefusesOtherShapes) {
  for (const auto& [sizes, got] : std::vector<std::pair<Dims, std::string>>{{{2, 8, 8}, "[2, 8, 8]"},
                                                                            {{4, 8, 8}, "[4, 8, 8]"},
                                                                            {{8}, "[8]"},
                                                                            {{8, 7}, "[8, 7]"},
                                                                            {{4, 2, 8, 8}, "[4, 2, 8, 8]"}}) {
    const auto mask = AttentionMask<TypeParam>::allow(Tensor<bool>::full(this->context_, sizes, true));
    EXPECT_EQ(
        check_attn_mask(mask, 2, 4, 8, 8).reason(),
        "attn_mask: expected [8, 8], [8, 8, 8] (batch * heads first) or [2, 4, 8, 8], any axis 1 instead, got " + got);
    const auto operands = test::random_operands<TypeParam>(this->context_, {2, 4, 4, 8, 8, 2, 2}, this->random_);
    EXPECT_TRUE(test::refuses([&] { this->attend(operands, mask); }, {"attn_mask: expected [8, 8]", got}));
  }
  EXPECT_TRUE(test::refuses(
      [&] {
        logical_and(this->booleans({2}, {1, 1}), this->booleans({3}, {1, 1, 1}));
      },
      {"logical_and: expected sizes that broadcast to each other, got [2] and [3]"}));
}

TEST(LogicalAnd, Broadcasts) {
  const Context context = test::poisoned_context();
  test::Random random(3);
  const auto a = test::random_mask(context, {4, 5, 6}, random), b = test::random_mask(context, {5, 1}, random);
  const auto both = logical_and(a, b), turned = logical_and(b, a);
  EXPECT_EQ(both.sizes(), (Dims{4, 5, 6}));
  test::for_each_index(both.sizes(), [&](const Dims& at) {
    EXPECT_EQ(test::element(both, at), test::element(a, at) && b.at({at[1], 0}));
  });
  EXPECT_TRUE(same_bits(both, turned));
}

// A mask of keys for each batch item is not taken for one of queries and keys where the sizes tell.
// Mutant: the sentence that does not say where padding goes.
TYPED_TEST(Mask, MaskOfKeysForEachBatchItem) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {3, 2, 2, 5, 7, 4, 4}, this->random_);
  const auto padding = test::random_mask(this->context_, {3, 7}, this->random_, 0.7);
  EXPECT_TRUE(test::refuses([&] { this->attend(operands, AttentionMask<TypeParam>::allow(padding)); },
                            {"[num_queries, num_keys] [5, 7]", "got [3, 7]", "key padding", "[3, 1, 1, 7]"}));
  // As four axes it is meant and taken.
  const auto four = view(padding, {3, 1, 1, 7});
  this->expect_right(operands, {.attn_mask = AttentionMask<TypeParam>::allow(four)});
}

}  // namespace
}  // namespace ennead
