// SPDX-License-Identifier: Apache-2.0
// What a variant does not take is refused with a sentence: expected, got. Never ignored, never a crash.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "ennead/ops.h"
#include "ennead/tape.h"
#include "support/expect.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::ModuleCase;
using test::refuses;

/// Numbers that grow with the key, so that adding them changes every weight.
Tensor<float> growing_bias(const Context& context, std::int64_t n) {
  auto bias = Tensor<float>::full(context, {n, n}, 0);
  for (std::int64_t i = 0; i < n * n; ++i) bias.data()[i] = static_cast<float>(i % n);
  return bias;
}

class VariantRefusals : public test::OfEachVariant {
 protected:
  Context context_ = test::poisoned_context();
  ModuleCase<float> module_{context_, test::odd_config(8), 2, 5};
  std::unique_ptr<Variant<float>> variant_ = module_.make(GetParam());
};
ENNEAD_FOR_EACH_VARIANT(VariantRefusals);

TEST_P(VariantRefusals, Inputs) {
  const auto x = [&](const Dims& sizes) { return Tensor<float>::full(context_, sizes, 1); };
  EXPECT_TRUE(refuses([&] { (*variant_)(x({2, 5, 12})); }, {"11", "[2, 5, 12]"}));
  EXPECT_TRUE(refuses([&] { (*variant_)(x({5, 11})); }, {"[5, 11]"}));
  EXPECT_TRUE(refuses([&] { (*variant_)(x({1, 2, 5, 11})); }, {"[1, 2, 5, 11]"}));
  EXPECT_TRUE(refuses([&] { (*variant_)(x({2, 9, 11})); }, {"8", "context_length", "9"}));
  EXPECT_TRUE(refuses([&] { (*variant_)(Tensor<float>()); }, {"empty"}));
  EXPECT_TRUE(test::same_bits((*variant_)(module_.x), (*variant_)(module_.x)));  // still usable
}

TEST_P(VariantRefusals, Configurations) {
  const auto with = [&](auto change) {
    Config config = module_.config;
    change(config);
    return [this, config] { make_variant(GetParam(), config, module_.weights); };
  };
  EXPECT_TRUE(refuses(with([](Config& c) { c.num_heads = 4; }), {"21", "4"}));
  EXPECT_TRUE(refuses(with([](Config& c) { c.num_heads = 0; }), {"0"}));
  EXPECT_TRUE(refuses(with([](Config& c) { c.num_heads = -3; }), {"-3"}));
  EXPECT_TRUE(refuses(with([](Config& c) { c.d_in = 0; }), {"0"}));
  EXPECT_TRUE(refuses(with([](Config& c) { c.d_out = -21; }), {"-21"}));
  EXPECT_TRUE(refuses(with([](Config& c) { c.context_length = -1; }), {"-1"}));
  for (const double p : {-0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(refuses(with([p](Config& c) { c.dropout = p; }), {"dropout"}));
  }
}

// Mutant: shapes of biases not looked at (then memory beside them is read).
TEST_P(VariantRefusals, Weights) {
  test::for_each_weight(module_.weights, [&](const char* name, Tensor<float>& weight) {
    const Tensor<float> right = weight;
    Dims wrong = right.sizes();
    wrong[0] += 1;
    const auto make = [&] { module_.make(GetParam()); };
    weight = Tensor<float>::full(context_, wrong, 0);
    EXPECT_TRUE(refuses(make, {name, to_string(right.sizes()), to_string(wrong)})) << name;
    weight = Tensor<float>();
    EXPECT_TRUE(refuses(make, {name})) << name;
    weight = right;
  });
  // K7: a bias that the configuration does not want is not quietly dropped.
  Config config = module_.config;
  config.qkv_bias = false;
  EXPECT_TRUE(refuses([&] { make_variant(GetParam(), config, module_.weights); }, {"W_query.bias"}));
  config = module_.config;
  config.out_bias = false;
  EXPECT_TRUE(refuses([&] { make_variant(GetParam(), config, module_.weights); }, {"out_proj.bias"}));
}

// Every variant with every option: one that it takes changes the answer, any other is refused by name.
// Mutants: an option that kSupports names and forward() does not read; one that check() does not look at.
TEST_P(VariantRefusals, NoOptionIsDroppedSilently) {
  using Change = void (*)(CallOptions<float>&, const Context&);
  struct Option {
    const char* name;
    bool Supports::*taken;
    Change set;
  };
  const Option all[] = {
      {"attn_mask", &Supports::attn_mask,
       [](CallOptions<float>& options, const Context& context) {
         options.attn_mask = AttentionMask<float>::allow(Tensor<bool>::full(context, {5, 5}, false));
       }},
      {"attn_mask", &Supports::attn_mask,
       [](CallOptions<float>& options, const Context& context) {
         options.attn_mask = AttentionMask<float>::additive(growing_bias(context, 5));
       }},
      {"key_padding_mask", &Supports::key_padding_mask,
       [](CallOptions<float>& options, const Context& context) {
         options.key_padding_block = Tensor<bool>::full(context, {2, 5}, true);
       }},
      {"need_weights", &Supports::need_weights,
       [](CallOptions<float>& options, const Context&) { options.need_weights = true; }},
  };
  const auto plain = (*variant_)(module_.x, {});
  EXPECT_TRUE(plain.attn_weights.empty());
  for (const Option& option : all) {
    SCOPED_TRACE(option.name);
    CallOptions<float> options;
    option.set(options, context_);
    if (!(GetParam().supports.*option.taken)) {
      EXPECT_TRUE(refuses([&] { (*variant_)(module_.x, options); }, {option.name, std::string(GetParam().slug)}));
      continue;
    }
    const auto result = (*variant_)(module_.x, options);
    EXPECT_TRUE(!result.attn_weights.empty() || !test::same_bits(plain.output, result.output)) << "it changed nothing";
  }
  // Without options a variant is asked for what its module returns by default.
  EXPECT_EQ(variant_->default_options().need_weights, GetParam().supports.need_weights);
}

// An option is honoured or refused, never ignored.
TEST_P(VariantRefusals, Options) {
  const Supports& can = GetParam().supports;
  const auto blocked = Tensor<bool>::full(context_, {2, 5}, false);
  CallOptions<float> mask, padding, weights;
  mask.attn_mask = AttentionMask<float>::block(causal_mask(context_, 5));
  padding.key_padding_block = blocked;
  weights.need_weights = true;
  const auto call = [&](const CallOptions<float>& options) {
    return [this, options] { (*variant_)(module_.x, options); };
  };
  const std::string slug(GetParam().slug);
  if (!can.attn_mask) {
    EXPECT_TRUE(refuses(call(mask), {"attn_mask", slug}));
  } else {
    mask.attn_mask = AttentionMask<float>::block(causal_mask(context_, 6));
    EXPECT_TRUE(refuses(call(mask), {"[5, 5]", "[6, 6]"}));
  }
  if (!can.key_padding_mask) {
    EXPECT_TRUE(refuses(call(padding), {"key_padding", slug}));
  } else {
    padding.key_padding_block = Tensor<bool>::full(context_, {5, 2}, false);
    EXPECT_TRUE(refuses(call(padding), {"[2, 5]", "[5, 2]"}));
  }
  if (!can.need_weights) {
    EXPECT_TRUE(refuses(call(weights), {"weights", slug}));
  }
  EXPECT_EQ((*variant_)(module_.x, {}).output.size(2), 21);
}

TEST_P(VariantRefusals, DropoutAndGradient) {
  const Supports& can = GetParam().supports;
  Config config = module_.config;
  config.dropout = 0.5;
  const auto variant = make_variant(GetParam(), config, module_.weights);
  if (can.dropout) {
    variant->train();
    EXPECT_TRUE(variant->training());
  } else {
    EXPECT_TRUE(refuses([&] { variant->train(); }, {"dropout", std::string(GetParam().slug)}));
    EXPECT_FALSE(variant->training());
    variant_->train();  // with nothing to drop there is nothing to refuse
  }
  if (!can.gradient) {
    Tape tape;
    context_.set_tape(&tape);
    tape.watch(module_.x);
    EXPECT_TRUE(refuses([&] { (*variant_)(module_.x); }, {"gradient", std::string(GetParam().slug)}));
    context_.set_tape(nullptr);
  }
}

// K11 (flash-attention issue 1500). Batch 20,000 counts past 32 bits, and is refused by its bytes
// before anything is taken. Mutant: int sizes.
TEST_P(VariantRefusals, LargeBatchIsCountedIn64Bits) {
  Config config;
  config.context_length = 16;
  const ModuleCase<float> module(context_, config, 1, 16);
  const auto variant = module.make(GetParam());
  const auto bytes = [&](std::int64_t batch) { return variant->workspace_bytes(context_, batch, 16); };
  const std::size_t result = std::size_t{20000} * 16 * 768 * sizeof(float);
  EXPECT_GE(bytes(20000), result);
  const std::size_t each = (bytes(2000) - bytes(1000)) / 1000;  // what is kept per batch item
  EXPECT_NEAR(static_cast<double>(bytes(20000)), static_cast<double>(20000 * each),
              0.02 * static_cast<double>(20000 * each) + 64e6);

  Context::Options options;
  options.threads = 1;
  options.arena.limit_bytes = 64 << 20;
  const Context small(options);
  const ModuleCase<float> there(small, config, 1, 16);
  const auto limited = there.make(GetParam());
  const Tensor<float> x(there.x.storage(), there.x.data(), {20000, 16, 768}, {0, 768, 1});
  const std::size_t before = small.arena().bytes_in_use();
  EXPECT_TRUE(refuses([&] { (*limited)(x); }, {"bytes", std::to_string(64 << 20)}));
  EXPECT_EQ(small.arena().bytes_in_use(), before);
}

// What is said beforehand is what a call takes, to the byte. Mutant: scratch not counted.
TEST_P(VariantRefusals, WorkspaceIsExact) {
  for (const std::int64_t num_tokens : {1, 37, 200}) {
    const ModuleCase<float> module(context_, test::odd_config(200), 3, num_tokens);
    const auto variant = module.make(GetParam());
    const std::size_t before = context_.arena().bytes_in_use();
    context_.arena().reset_peak();
    (*variant)(module.x);
    EXPECT_EQ(variant->workspace_bytes(context_, 3, num_tokens), context_.arena().peak_bytes() - before);
  }
}

// Memory that runs out anywhere on the way is refused, and what was taken until then goes back.
TEST_P(VariantRefusals, OutOfMemoryHalfway) {
  const auto context = [](std::size_t limit) {
    Context::Options options;
    options.threads = 1;
    options.arena.limit_bytes = limit;
    return Context(options);
  };
  const ModuleCase<float> module(context(0), test::odd_config(64), 2, 64);
  const auto variant = module.make(GetParam());
  const std::size_t needed = variant->workspace_bytes(module.x.context(), 2, 64), x_bytes = module.x.storage()->bytes;
  for (const double share : {0.01, 0.2, 0.4, 0.6, 0.8, 0.99}) {
    const Context tight = context(x_bytes + static_cast<std::size_t>(share * static_cast<double>(needed)));
    const auto x = test::copy_of(module.x, tight);
    EXPECT_TRUE(refuses([&] { (*variant)(x); }, {"bytes"})) << share;
    EXPECT_EQ(tight.arena().bytes_in_use(), x_bytes) << share;
  }
  const Context enough = context(x_bytes + needed);
  EXPECT_TRUE(test::same_bits((*variant)(module.x), (*variant)(test::copy_of(module.x, enough))));
}

TEST(VariantList, NumbersSlugsAndParents) {
  std::set<int> numbers;
  std::set<std::string_view> slugs;
  int last = 0;
  for (const VariantInfo& info : variants()) {
    EXPECT_GT(info.number, last);
    last = info.number;
    numbers.insert(info.number);
    slugs.insert(info.slug);
    EXPECT_FALSE(info.title.empty());
    EXPECT_FALSE(info.change.empty());
    EXPECT_EQ(find_variant(std::to_string(info.number)), &info);
    EXPECT_EQ(find_variant(info.slug), &info);
  }
  EXPECT_EQ(slugs.size(), variants().size());
  for (const VariantInfo& info : variants()) {
    EXPECT_TRUE(info.parent == 0 || (info.parent != info.number && numbers.contains(info.parent))) << info.slug;
  }
  EXPECT_EQ(variants().front().parent, 0);
}

TEST(VariantList, UnknownNamesAreRefusedWithTheList) {
  for (const char* name : {"0", "99", "", "5x", " 5", "-1", "fast", "99999999999999999999"}) {
    EXPECT_EQ(find_variant(name), nullptr) << name;
    const std::string refusal = unknown_variant(name);
    EXPECT_NE(refusal.find(sentence('"', name, '"')), std::string::npos);
    for (const VariantInfo& info : variants()) EXPECT_NE(refusal.find(info.slug), std::string::npos);
  }
}

}  // namespace
}  // namespace ennead
