// SPDX-License-Identifier: Apache-2.0
// MultiheadAttention: the module's options, each with its right answer from public reports.
#include <gtest/gtest.h>

#include <limits>

#include "ennead/attention.h"
#include "ennead/tape.h"
#include "support/attention.h"
#include "support/contexts.h"
#include "support/expect.h"

namespace ennead {
namespace {

using test::attention_tolerance;
using test::close;
using test::same_bits;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A module with its weights at hand for the oracle.
template <class T>
struct Module {
  std::int64_t num_heads;
  Tensor<T> in_weight, in_bias, out_weight, out_bias;

  static Module random(const Context& context, std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads,
                       test::Random& numbers, bool in_has_bias = true, bool out_has_bias = true) {
    const auto small = [&](const Dims& sizes) {
      auto tensor = test::random_tensor<T>(context, sizes, numbers);
      for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
        tensor.data()[i] /= static_cast<T>(std::sqrt(static_cast<double>(d_in)));
      }
      return tensor;
    };
    return {num_heads, small({3 * d_out, d_in}), in_has_bias ? small({3 * d_out}) : Tensor<T>(), small({d_out, d_out}),
            out_has_bias ? small({d_out}) : Tensor<T>()};
  }

  MultiheadAttention<T> make() const { return {num_heads, in_weight, in_bias, out_weight, out_bias}; }

  oracle::Module to_oracle() const {
    const std::int64_t d_out = out_weight.size(0);
    const auto part = [&](const Tensor<T>& packed, std::int64_t i) {
      return packed.empty() ? std::vector<double>() : test::to_doubles(narrow(packed, 0, i * d_out, d_out));
    };
    return {in_weight.size(1),
            d_out,
            num_heads,
            part(in_weight, 0),
            part(in_weight, 1),
            part(in_weight, 2),
            part(in_bias, 0),
            part(in_bias, 1),
            part(in_bias, 2),
            test::to_doubles(out_weight),
            test::to_doubles(out_bias)};
  }
};

template <class T>
class Multihead : public testing::Test {
 protected:
  using Options = typename MultiheadAttention<T>::Options;

  Context context_ = test::poisoned_context();
  test::Random random_{17};

  /// Output and per-head weights must be what the oracle says, and asking must not change the output.
  void expect_right(const Module<T>& module, const Tensor<T>& x, Options options) {
    const auto attention = module.make();
    oracle::Rules rules = test::rules_of<T>({.attn_mask = options.attn_mask, .is_causal = options.is_causal},
                                            {.heads = module.num_heads});
    if (!options.key_padding_block.empty()) {
      rules.allow = [inner = rules.allow, padding = options.key_padding_block](std::int64_t b, std::int64_t h,
                                                                               std::int64_t q, std::int64_t k) {
        return !padding.at({b, k}) && (!inner || inner(b, h, q, k));
      };
    }
    const auto rows = test::to_doubles(x);
    const auto expected = oracle::module_rows(module.to_oracle(), rows, x.size(0), x.size(1), rules, {});
    const auto weights = oracle::module_attention(module.to_oracle(), rows, x.size(0), x.size(1), rules).weights;
    options.average_attn_weights = false;
    const auto got = attention(x, options);
    EXPECT_TRUE(close(expected, got.output, attention_tolerance<T>()));
    EXPECT_TRUE(close(weights, got.attn_weights, attention_tolerance<T>()));
    options.need_weights = false;
    EXPECT_TRUE(same_bits(got.output, attention(x, options).output));
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Multihead, Types);

// Weights on request: the same bits without, averaged and for each head; the default asks for the mean.
TYPED_TEST(Multihead, AskingForWeightsNeverChangesTheOutput) {
  const auto module = Module<TypeParam>::random(this->context_, 10, 10, 2, this->random_);
  const auto attention = module.make();
  const auto x = test::random_tensor<TypeParam>(this->context_, {3, 4, 10}, this->random_);
  const auto without = attention(x, {.need_weights = false});
  const auto mean = attention(x);
  const auto each = attention(x, {.average_attn_weights = false});
  EXPECT_TRUE(without.attn_weights.empty());
  EXPECT_EQ(mean.attn_weights.sizes(), (Dims{3, 4, 4}));
  EXPECT_EQ(each.attn_weights.sizes(), (Dims{3, 2, 4, 4}));
  EXPECT_TRUE(same_bits(without.output, mean.output));
  EXPECT_TRUE(same_bits(without.output, each.output));
  test::for_each_index(mean.attn_weights.sizes(), [&](const Dims& at) {
    const TypeParam by_hand =
        (each.attn_weights.at({at[0], 0, at[1], at[2]}) + each.attn_weights.at({at[0], 1, at[1], at[2]})) / 2;
    EXPECT_NEAR(static_cast<double>(test::element(mean.attn_weights, at)), static_cast<double>(by_hand), 1e-7);
  });
}

// is_causal acts also when weights are wanted: they are lower-triangular.
TYPED_TEST(Multihead, CausalWithWeights) {
  const auto module = Module<TypeParam>::random(this->context_, 8, 8, 2, this->random_);
  const auto x = test::random_tensor<TypeParam>(this->context_, {4, 3, 8}, this->random_);
  this->expect_right(module, x, {.is_causal = true});
  const auto weights = module.make()(x, {.is_causal = true}).attn_weights;
  test::for_each_index(weights.sizes(), [&](const Dims& at) {
    const bool past = at[2] <= at[1];
    EXPECT_EQ(test::element(weights, at) > 0, past);
    EXPECT_EQ(test::element(weights, at) == 0, !past);
  });
}

// Every mask the module takes, alone and together. Mutant: one of two masks dropped.
TYPED_TEST(Multihead, Masks) {
  const auto module = Module<TypeParam>::random(this->context_, 12, 15, 3, this->random_);
  const auto x = test::random_tensor<TypeParam>(this->context_, {2, 9, 12}, this->random_);
  auto padding = Tensor<bool>::full(this->context_, {2, 9}, false);
  for (const std::int64_t key : {0, 7, 8}) padding.at({1, key}) = true;
  this->expect_right(module, x, {.key_padding_block = padding});
  this->expect_right(module, x, {.is_causal = true, .key_padding_block = padding});
  for (const Dims& sizes : {Dims{9, 9}, Dims{6, 9, 9}, Dims{2, 3, 9, 9}, Dims{1, 9}}) {
    SCOPED_TRACE(to_string(sizes));
    const auto boolean = AttentionMask<TypeParam>::allow(test::random_mask(this->context_, sizes, this->random_, 0.7));
    const auto additive =
        AttentionMask<TypeParam>::additive(test::random_tensor<TypeParam>(this->context_, sizes, this->random_));
    for (const auto& mask : {boolean, additive}) {
      this->expect_right(module, x, {.attn_mask = mask});
      this->expect_right(module, x, {.is_causal = true, .attn_mask = mask, .key_padding_block = padding});
    }
  }
}

// What is padded cannot be felt by the others, even as NaN. Mutant: padding added as a large penalty.
TYPED_TEST(Multihead, PaddingIsNotRead) {
  const auto attention = Module<TypeParam>::random(this->context_, 8, 8, 2, this->random_).make();
  auto x = test::random_tensor<TypeParam>(this->context_, {2, 6, 8}, this->random_);
  auto padding = Tensor<bool>::full(this->context_, {2, 6}, false);
  padding.at({0, 5}) = padding.at({1, 2}) = true;
  const auto before = attention(x, {.key_padding_block = padding});
  for (std::int64_t d = 0; d < 8; ++d) {
    x.at({0, 5, d}) = static_cast<TypeParam>(kNaN);
    x.at({1, 2, d}) = static_cast<TypeParam>(kInfinity);
  }
  const auto after = attention(x, {.key_padding_block = padding});
  EXPECT_TRUE(same_bits(narrow(before.output, 1, 0, 2), narrow(after.output, 1, 0, 2)));
  EXPECT_TRUE(same_bits(narrow(before.attn_weights, 1, 0, 2), narrow(after.attn_weights, 1, 0, 2)));
  EXPECT_TRUE(same_bits(narrow(before.output, 1, 3, 2), narrow(after.output, 1, 3, 2)));
}

// Everything padded: zero context, so the output is the bias of the output projection.
TYPED_TEST(Multihead, AllPadded) {
  const auto module = Module<TypeParam>::random(this->context_, 4, 4, 2, this->random_);
  const auto x = test::random_tensor<TypeParam>(this->context_, {1, 3, 4}, this->random_);
  const auto got = module.make()(x, {.key_padding_block = Tensor<bool>::full(this->context_, {1, 3}, true)});
  std::vector<double> expected;
  for (int row = 0; row < 3; ++row) {
    for (const double bias : test::to_doubles(module.out_bias)) expected.push_back(bias);
  }
  EXPECT_TRUE(close(expected, got.output, {}));
  EXPECT_TRUE(close(std::vector<double>(9, 0.0), got.attn_weights, {}));
}

// Biases are switched one by one, and d_in need not be d_out. Mutant: a bias that is always there.
TYPED_TEST(Multihead, BiasesAndWidths) {
  for (const bool in_bias : {false, true}) {
    for (const bool out_bias : {false, true}) {
      const auto module = Module<TypeParam>::random(this->context_, 6, 4, 2, this->random_, in_bias, out_bias);
      this->expect_right(module, test::random_tensor<TypeParam>(this->context_, {2, 3, 6}, this->random_), {});
    }
  }
}

// Batch comes first: another second sample leaves the first one's bits.
TYPED_TEST(Multihead, BatchFirst) {
  const auto attention = Module<TypeParam>::random(this->context_, 4, 4, 2, this->random_).make();
  auto x = test::random_tensor<TypeParam>(this->context_, {2, 3, 4}, this->random_);
  const auto before = attention(x);
  for (std::int64_t i = 12; i < 24; ++i) x.data()[i] += 1;
  const auto after = attention(x);
  EXPECT_TRUE(same_bits(narrow(before.output, 0, 0, 1), narrow(after.output, 0, 0, 1)));
  EXPECT_FALSE(same_bits(narrow(before.output, 0, 1, 1), narrow(after.output, 0, 1, 1)));
}

TYPED_TEST(Multihead, RefusesInOneSentence) {
  const auto tensor = [&](const Dims& sizes) { return Tensor<TypeParam>::full(this->context_, sizes, 1); };
  const auto module = [&](std::int64_t heads, const Dims& in, const Dims& in_bias, const Dims& out) {
    return [=] { MultiheadAttention<TypeParam>(heads, tensor(in), tensor(in_bias), tensor(out), {}); };
  };
  EXPECT_TRUE(test::refuses(module(5, {12, 4}, {12}, {4, 4}),
                            {"MultiheadAttention: expected a number of heads that divides d_out 4, got 5"}));
  EXPECT_TRUE(
      test::refuses(module(2, {13, 4}, {12}, {4, 4}), {"expected in_proj_weight [3 * d_out, d_in], got [13, 4]"}));
  EXPECT_TRUE(test::refuses(module(2, {12, 4}, {4}, {4, 4}), {"expected in_proj_bias [12], got [4]"}));
  EXPECT_TRUE(test::refuses(module(2, {12, 4}, {12}, {4, 5}), {"expected out_proj_weight [4, 4], got [4, 5]"}));

  const MultiheadAttention<TypeParam> attention(2, tensor({12, 4}), {}, tensor({4, 4}), {});
  EXPECT_TRUE(test::refuses(
      [&] {
        attention(tensor({2, 3, 5}));
      },
      {"expected x [batch, num_tokens, 4], got [2, 3, 5]"}));
  EXPECT_TRUE(test::refuses(
      [&] {
        attention(tensor({2, 3, 4}), {.key_padding_block = Tensor<bool>::full(this->context_, {3, 2}, true)});
      },
      {"expected key_padding_block [2, 3], got [3, 2]"}));
  EXPECT_TRUE(test::refuses(
      [&] {
        attention(tensor({2, 3, 4}),
                  {.attn_mask = AttentionMask<TypeParam>::allow(Tensor<bool>::full(this->context_, {2, 3, 3}, true))});
      },
      {"attn_mask: expected [3, 3], [4, 3, 3] (batch * heads first) or [2, 2, 3, 3], any axis 1 instead, got [2, 3, "
       "3]"}));

  Tape tape;
  this->context_.set_tape(&tape);
  auto x = tensor({2, 3, 4});
  tape.watch(x);
  EXPECT_TRUE(test::refuses([&] { attention(x); }, {"the gradient of fused attention is not there yet"}));
  this->context_.set_tape(nullptr);
}

}  // namespace
}  // namespace ennead
