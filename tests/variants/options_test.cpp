// SPDX-License-Identifier: Apache-2.0
// Masks, padding and returned weights, in the variants that take them; and what an inverted mask does.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "ennead/ops.h"
#include "support/expect.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::kEpsilon;
using test::ModuleCase;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kBatch = 2, kTokens = 19;

class VariantOptions : public test::OfEachVariant {
 protected:
  Context context_ = test::poisoned_context();
};
class VariantMasks : public VariantOptions {};
class VariantPadding : public VariantOptions {};
ENNEAD_FOR_EACH_VARIANT(VariantOptions);
ENNEAD_FOR_VARIANTS_THAT_TAKE(&Supports::attn_mask, VariantMasks);
ENNEAD_FOR_VARIANTS_THAT_TAKE(&Supports::key_padding_mask, VariantPadding);

/// Reads a mask by the one shape rule: [L, L], [batch * heads, L, L] or [batch, heads, L, L], 1 for all.
template <class T>
T mask_at(const Tensor<T>& mask, std::int64_t heads, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  const std::int64_t full[] = {b, h, q, k}, joined[] = {b * heads + h, q, k};
  std::int64_t offset = 0;
  for (int axis = 0; axis < mask.rank(); ++axis) {
    const std::int64_t index = mask.rank() == 3 ? joined[axis] : full[axis + 4 - mask.rank()];
    offset += mask.size(axis) == 1 ? 0 : index * mask.stride(axis);
  }
  return mask.data()[offset];
}

template <class T>
oracle::Rules rules_of(const CallOptions<T>& options, const Config& config) {
  oracle::Rules rules;
  rules.causal = config.is_causal;
  const auto allowed = options.attn_mask.allowed;
  const auto padding = options.key_padding_block;
  const std::int64_t heads = config.num_heads;
  rules.allow = [allowed, padding, heads](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
    return (allowed.empty() || mask_at(allowed, heads, b, h, q, k)) && (padding.empty() || !padding.at({b, k}));
  };
  if (const auto bias = options.attn_mask.bias; !bias.empty()) {
    rules.bias = [bias, heads](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
      return static_cast<double>(mask_at(bias, heads, b, h, q, k));
    };
  }
  return rules;
}

template <class T>
Tensor<T> random_bias(const Context& context, const Dims& sizes, test::Random& random) {
  auto bias = test::random_tensor<T>(context, sizes, random);
  for (std::int64_t i = 0; i < bias.num_elements(); ++i) {
    if (random.coin(0.3)) bias.data()[i] = static_cast<T>(-kInfinity);
  }
  return bias;
}

// K1, K2, K4 (PyTorch issues 41508, 64706, 34537). Every kind of mask in every shape, causal or not,
// with and without padding, rows left empty by two masks together; weights per head and averaged.
// Mutants: true read as "blocked"; masks combined by OR; [batch * heads, L, L] read heads first; an
// empty row gives NaN or the mean of V.
template <class T>
void random_options(const VariantInfo& info, const Context& context) {
  const Supports& can = info.supports;
  test::Random random(static_cast<std::uint64_t>(info.number));
  for (int round = 0; round < 40; ++round) {
    Config config = test::odd_config(kTokens);
    config.is_causal = random.coin();
    const ModuleCase<T> module(context, config, kBatch, kTokens, static_cast<std::uint64_t>(round));
    const std::vector<Dims> shapes{{kTokens, kTokens},
                                   {kBatch * 3, kTokens, kTokens},
                                   {kBatch, 3, kTokens, kTokens},
                                   {1, 3, kTokens, kTokens},
                                   {kBatch, 1, 1, kTokens},
                                   {kBatch, 1, kTokens, 1},
                                   {1, kTokens},
                                   {1, 1, kTokens, kTokens}};
    CallOptions<T> options;
    if (can.attn_mask && random.coin(0.8)) {
      const Dims shape = random.pick(shapes);
      const auto kind = random.integer(0, 3);
      const auto layout = test::kLayouts[random.integer(0, 2)];
      if (kind == 0) options.attn_mask = AttentionMask<T>::allow(test::random_mask(context, shape, random, 0.4));
      if (kind == 1) options.attn_mask = AttentionMask<T>::block(test::random_mask(context, shape, random, 0.6));
      if (kind >= 2) {
        options.attn_mask =
            AttentionMask<T>::additive(test::with_layout(random_bias<T>(context, shape, random), layout));
      }
    }
    if (can.key_padding_mask && random.coin()) {
      options.key_padding_block = test::random_mask(context, {kBatch, kTokens}, random, 0.4);
    }
    options.need_weights = can.need_weights && random.coin(0.7);
    options.average_attn_weights = random.coin();
    SCOPED_TRACE(sentence("round ", round, ", causal ", config.is_causal, ", padding ",
                          !options.key_padding_block.empty(), ", mask ",
                          options.attn_mask.empty()           ? std::string("none")
                          : options.attn_mask.allowed.empty() ? "bias " + to_string(options.attn_mask.bias.sizes())
                                                              : to_string(options.attn_mask.allowed.sizes())));

    const oracle::Rules rules = rules_of(options, config);
    const auto variant = module.make(info);
    const auto [output, attn_weights] = (*variant)(module.x, options);
    ASSERT_TRUE(test::close(module.expected(rules), output, oracle::first_tolerance(kEpsilon<T>)));
    ASSERT_EQ(attn_weights.empty(), !options.need_weights);
    if (!options.need_weights) continue;

    // Asking for weights never changes the output.
    auto without = options;
    without.need_weights = false;
    ASSERT_TRUE(test::same_bits(output, (*variant)(module.x, without).output));
    const auto whole = oracle::module_attention(test::to_oracle(config, module.weights), test::to_doubles(module.x),
                                                kBatch, kTokens, rules);
    std::vector<double> expected = whole.weights;
    if (options.average_attn_weights) {
      expected.assign(static_cast<std::size_t>(kBatch * kTokens * kTokens), 0.0);
      for (std::size_t i = 0; i < whole.weights.size(); ++i) {
        const std::size_t matrix = kTokens * kTokens, b = i / (3 * matrix);
        expected[b * matrix + i % matrix] += whole.weights[i] / 3;
      }
      ASSERT_EQ(to_string(attn_weights.sizes()), to_string({kBatch, kTokens, kTokens}));
    } else {
      ASSERT_EQ(to_string(attn_weights.sizes()), to_string({kBatch, 3, kTokens, kTokens}));
    }
    ASSERT_TRUE(test::close(expected, attn_weights, oracle::first_tolerance(kEpsilon<T>)));
    // What is blocked has a weight of exactly 0.
    const auto got = test::to_doubles(attn_weights);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(expected[i] != 0 || got[i] == 0);
  }
}

TEST_P(VariantOptions, RandomOptionsFloat) { random_options<float>(GetParam(), context_); }
TEST_P(VariantOptions, RandomOptionsDouble) { random_options<double>(GetParam(), context_); }

// Variants 7 and 8 are the module's lines written out. Mutants: the module or a variant changed alone.
TEST_P(VariantPadding, IsTheModuleToTheBit) {
  test::Random random(5);
  const ModuleCase<float> given(context_, test::odd_config(kTokens), kBatch, kTokens);
  const auto stacked = [](const Tensor<float>& query, const Tensor<float>& key, const Tensor<float>& value) {
    const std::array parts{query, key, value};
    return cat(std::span<const Tensor<float>>(parts), 0);
  };
  const auto& w = given.weights;
  const MultiheadAttention<float> module(given.config.num_heads, stacked(w.W_query, w.W_key, w.W_value),
                                         stacked(w.b_query, w.b_key, w.b_value), w.out_proj_weight, w.out_proj_bias);
  const Dims shapes[] = {{kTokens, kTokens}, {kBatch * 3, kTokens, kTokens}, {kBatch, 1, 1, kTokens}};
  for (const Dims& shape : shapes) {
    for (const bool average : {false, true}) {
      CallOptions<float> options;
      options.attn_mask = AttentionMask<float>::allow(test::random_mask(context_, shape, random, 0.6));
      options.key_padding_block = test::random_mask(context_, {kBatch, kTokens}, random, 0.3);
      options.need_weights = GetParam().supports.need_weights;
      options.average_attn_weights = average;
      const auto expected = module(given.x, {.is_causal = given.config.is_causal,
                                             .attn_mask = options.attn_mask,
                                             .key_padding_block = options.key_padding_block,
                                             .need_weights = options.need_weights,
                                             .average_attn_weights = average});
      const auto got = (*given.make(GetParam()))(given.x, options);
      EXPECT_TRUE(test::same_bits(expected.output, got.output));
      ASSERT_EQ(expected.attn_weights.empty(), got.attn_weights.empty());
      EXPECT_TRUE(!options.need_weights || test::same_bits(expected.attn_weights, got.attn_weights));
    }
  }
}

// K2 (OpenVINO issue 31630). Masks that say nothing change nothing.
TEST_P(VariantOptions, NeutralMasks) {
  const ModuleCase<float> module(context_, test::odd_config(kTokens), kBatch, kTokens);
  const auto variant = module.make(GetParam());
  const auto plain = (*variant)(module.x);
  const auto with = [&](const AttentionMask<float>& mask, const Tensor<bool>& padding = {}) {
    CallOptions<float> options;
    options.attn_mask = mask;
    options.key_padding_block = padding;
    return (*variant)(module.x, options).output;
  };
  if (GetParam().supports.attn_mask) {
    const Dims square{kTokens, kTokens};
    EXPECT_TRUE(test::same_bits(plain, with(AttentionMask<float>::allow(Tensor<bool>::full(context_, square, true)))));
    EXPECT_TRUE(test::same_bits(plain, with(AttentionMask<float>::block(Tensor<bool>::full(context_, square, false)))));
    EXPECT_TRUE(test::close(test::to_doubles(plain),
                            with(AttentionMask<float>::additive(Tensor<float>::full(context_, square, 0))),
                            {0, 2 * kEpsilon<float>}));
    // A float mask of zeros and ones is added, not obeyed.
    const auto ones = AttentionMask<float>::additive(Tensor<float>::full(context_, square, 1));
    EXPECT_TRUE(test::close(module.expected(), with(ones), oracle::first_tolerance(kEpsilon<float>)));
  }
  if (GetParam().supports.key_padding_mask) {
    EXPECT_TRUE(test::same_bits(plain, with({}, Tensor<bool>::full(context_, {kBatch, kTokens}, false))));
  }
}

// K1 (PyTorch issue 103963, onnxruntime issue 28958). A row in which everything is blocked is a zero
// row before the output projection, so the bias alone comes out.
TEST_P(VariantMasks, EverythingBlocked) {
  const ModuleCase<float> module(context_, test::odd_config(kTokens), kBatch, kTokens);
  const auto bias = test::to_doubles(module.weights.out_proj_bias);
  std::vector<double> expected;
  for (std::int64_t row = 0; row < kBatch * kTokens; ++row) expected.insert(expected.end(), bias.begin(), bias.end());
  const Dims square{kTokens, kTokens};
  for (const auto& mask :
       {AttentionMask<float>::allow(Tensor<bool>::full(context_, square, false)),
        AttentionMask<float>::additive(Tensor<float>::full(context_, square, static_cast<float>(-kInfinity)))}) {
    CallOptions<float> options;
    options.attn_mask = mask;
    options.need_weights = GetParam().supports.need_weights;
    const auto result = (*module.make(GetParam()))(module.x, options);
    EXPECT_TRUE(test::close(expected, result.output, {}));
    if (options.need_weights) {
      EXPECT_TRUE(test::close(std::vector<double>(kBatch * kTokens * kTokens, 0.0), result.attn_weights, {}));
    }
  }
}

// K1, K2. NaN behind padding or a mask cannot leak.
TEST_P(VariantPadding, BlockedNaNDoesNotLeak) {
  ModuleCase<float> module(context_, test::odd_config(kTokens), kBatch, kTokens);
  module.config.is_causal = false;
  const auto variant = module.make(GetParam());
  CallOptions<float> options;
  options.key_padding_block = Tensor<bool>::full(context_, {kBatch, kTokens}, false);
  options.key_padding_block.at({0, 7}) = true;
  const auto clean = (*variant)(module.x, options).output;
  for (std::int64_t d = 0; d < 11; ++d) module.x.at({0, 7, d}) = std::numeric_limits<float>::quiet_NaN();
  const auto y = (*variant)(module.x, options).output;
  for (std::int64_t row = 0; row < kTokens; ++row) {
    const auto of = [&](const Tensor<float>& all) { return narrow(all, 1, row, 1); };
    if (row == 7) {
      EXPECT_TRUE(std::isnan(y.at({0, row, 0})));  // its own query is NaN
    } else {
      EXPECT_TRUE(test::same_bits(of(clean), of(y))) << row;
    }
  }
}

// The original's variant 6 hands the causal buffer (true: future) to a function in which true means
// "may be seen": it looks at nothing but the future. What that gives, and that it would be caught.
TEST(InvertedMask, IsFarFromTheAnswerAndCaught) {
  const Context context = test::poisoned_context();
  const ModuleCase<float> module(context, test::odd_config(kTokens), kBatch, kTokens);
  Config open = module.config;
  open.is_causal = false;
  oracle::Rules future;
  future.allow = [](std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) { return k > q; };
  const auto right = module.expected();
  const auto inverted = oracle::module_rows(test::to_oracle(open, module.weights), test::to_doubles(module.x), kBatch,
                                            kTokens, future, {});

  // Its last row sees nothing: zeros before the projection. Every row but that one differs by far
  // more than any tolerance, and the comparison that guards all variants says so.
  const auto bias = test::to_doubles(module.weights.out_proj_bias);
  const std::vector<double> last(inverted.begin() + (kTokens - 1) * 21, inverted.begin() + kTokens * 21);
  EXPECT_EQ(last, bias);
  const auto compared = oracle::compare(right, inverted, 21, oracle::first_tolerance(kEpsilon<float>));
  EXPECT_FALSE(compared.ok);
  EXPECT_GT(compared.max_abs_err, 0.05);

  bool tried = false;
  for (const VariantInfo& info : variants()) {
    SCOPED_TRACE(info.slug);
    EXPECT_FALSE(test::close(inverted, module.run(info), {1e-3, 0})) << "the mask is inverted";
    if (!info.supports.attn_mask) continue;
    // Said by name, the same buffer is right or wrong.
    const auto variant = make_variant(info, open, module.weights);
    CallOptions<float> options;
    options.attn_mask = AttentionMask<float>::block(causal_mask(context, kTokens));
    EXPECT_TRUE(test::close(right, (*variant)(module.x, options).output, oracle::first_tolerance(kEpsilon<float>)));
    options.attn_mask = AttentionMask<float>::allow(causal_mask(context, kTokens));
    EXPECT_TRUE(test::close(inverted, (*variant)(module.x, options).output, oracle::first_tolerance(kEpsilon<float>)));
    tried = true;
  }
  EXPECT_TRUE(tried || variants().size() < 10);
}

}  // namespace
}  // namespace ennead
