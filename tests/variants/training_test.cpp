// SPDX-License-Identifier: Apache-2.0
// Dropout and gradients, in the variants that have them.
#include <gtest/gtest.h>

#include <cmath>

#include "ennead/ops.h"
#include "support/expect.h"
#include "support/gradients.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::ModuleCase;

class VariantEvaluation : public test::OfEachVariant {
 protected:
  Context context_ = test::poisoned_context({.threads = 2, .seed = 11});
};
class VariantDropout : public VariantEvaluation {};
class VariantGradients : public VariantEvaluation {};
ENNEAD_FOR_EACH_VARIANT(VariantEvaluation);
ENNEAD_FOR_VARIANTS_THAT_TAKE(&Supports::dropout, VariantDropout);
ENNEAD_FOR_VARIANTS_THAT_TAKE(&Supports::gradient, VariantGradients);

// K12 (PyTorch issue 124464). Mutant: p handed on without asking for the mode.
TEST_P(VariantEvaluation, NeverDrops) {
  ModuleCase<float> module(context_, test::odd_config(9), 2, 9);
  const auto plain = module.run(GetParam());
  module.config.dropout = 0.5;
  const auto variant = module.make(GetParam());
  EXPECT_TRUE(test::same_bits(plain, (*variant)(module.x)));
  EXPECT_TRUE(test::same_bits(plain, (*variant)(module.x)));
  if (!GetParam().supports.dropout) return;
  variant->train();
  EXPECT_FALSE(test::same_bits(plain, (*variant)(module.x)));
  variant->eval();
  EXPECT_TRUE(test::same_bits(plain, (*variant)(module.x)));
}

// The same seed drops the same weights in every variant; another seed drops others.
TEST_P(VariantDropout, SameDrawInAll) {
  ModuleCase<double> module(context_, test::odd_config(17), 3, 17);
  module.config.dropout = 0.3;
  const auto run = [&](const VariantInfo& info) {
    const auto variant = module.make(info);
    variant->train();
    return (*variant)(module.x);
  };
  const auto mine = run(GetParam());
  EXPECT_TRUE(test::close(test::to_doubles(run(variants().front())), mine, {1e-14, 0}));
  EXPECT_TRUE(test::same_bits(mine, run(GetParam())));
  context_.set_seed(12);
  EXPECT_FALSE(test::same_bits(mine, run(GetParam())));
}

// K12 (flash-attention issue 93). Dropout acts on the weights after softmax and scales what it
// keeps, so the mean over seeds is the output without it. Mutants: before softmax; no 1 / (1 - p).
TEST_P(VariantDropout, MeanOverSeedsIsTheOutput) {
  ModuleCase<double> module(context_, {.d_in = 4, .d_out = 4, .context_length = 4, .num_heads = 1}, 1, 4);
  const auto plain = test::to_doubles(module.run(GetParam()));
  module.config.dropout = 0.25;
  const auto variant = module.make(GetParam());
  variant->train();
  constexpr int kSeeds = 1000;
  std::vector<double> sum(plain.size(), 0.0), squares(plain.size(), 0.0);
  for (int seed = 0; seed < kSeeds; ++seed) {
    context_.set_seed(static_cast<std::uint64_t>(seed));
    const auto y = test::to_doubles((*variant)(module.x));
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum[i] += y[i];
      squares[i] += y[i] * y[i];
    }
  }
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double mean = sum[i] / kSeeds, variance = squares[i] / kSeeds - mean * mean;
    EXPECT_GT(variance, 0);
    EXPECT_NEAR(mean, plain[i], 5 * std::sqrt(variance / kSeeds));
  }
  // With p = 1 nothing is left but the bias of the output projection.
  module.config.dropout = 1;
  const auto all = module.make(GetParam());
  all->train();
  const auto bias = test::to_doubles(module.weights.out_proj_bias);
  std::vector<double> expected;
  for (int row = 0; row < 4; ++row) expected.insert(expected.end(), bias.begin(), bias.end());
  EXPECT_TRUE(test::close(expected, (*all)(module.x), {}));
}

// Gradients of x and of every weight and bias by central differences. Mutants: scale left out of
// the score's derivative; Q and K swapped; the gradient of one third of the packed QKV lost.
TEST_P(VariantGradients, ByCentralDifferences) {
  for (int kind = 0; kind < 4; ++kind) {
    SCOPED_TRACE(kind);
    Config config{.d_in = 5, .d_out = 6, .context_length = 5, .num_heads = 2};
    config.is_causal = kind != 1;
    config.qkv_bias = kind != 2;
    config.out_bias = kind != 2;
    config.dropout = kind == 3 ? 0.4 : 0;
    ModuleCase<double> module(context_, config, 2, 4);
    if (kind == 1) module.x = test::with_layout(module.x, test::Layout::reversed);
    std::vector<Tensor<double>*> inputs{&module.x};
    test::for_each_weight(module.weights, [&](const char*, Tensor<double>& weight) { inputs.push_back(&weight); });
    test::expect_gradients(context_, inputs, [&] {
      const auto variant = module.make(GetParam());
      variant->train();
      return (*variant)(module.x);
    });
  }
}

// K10 (PyTorch issue 148476). Any subset of the inputs may want a gradient, with the same result.
TEST_P(VariantGradients, OfAnySubset) {
  ModuleCase<double> module(context_, test::odd_config(6), 2, 6);
  std::vector<Tensor<double>*> inputs{&module.x};
  test::for_each_weight(module.weights, [&](const char*, Tensor<double>& weight) { inputs.push_back(&weight); });
  test::Random random(2);
  const auto dy = test::random_tensor<double>(context_, {2, 6, 21}, random);
  const auto gradients = [&](std::uint64_t wanted) {
    Tape tape;
    context_.set_tape(&tape);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (wanted >> i & 1U) tape.watch(*inputs[i]);
    }
    const auto y = module.run(GetParam());
    tape.backward(y, dy);
    context_.set_tape(nullptr);
    std::vector<Tensor<double>> all(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (wanted >> i & 1U) all[i] = test::copy_of(tape.gradient(*inputs[i]));
      inputs[i]->variable = nullptr;
    }
    return all;
  };
  const std::uint64_t all = (std::uint64_t{1} << inputs.size()) - 1;
  const auto reference = gradients(all);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(test::same_bits(reference[i], gradients(std::uint64_t{1} << i)[i])) << "only input " << i;
    const auto others = gradients(all & ~(std::uint64_t{1} << i));
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      EXPECT_TRUE(j == i || test::same_bits(reference[j], others[j])) << j << " without input " << i;
    }
  }
}

// Gradients too have the same bits for any number of threads, and agree between instruction sets.
TEST_P(VariantGradients, ForAnyThreads) {
  std::vector<double> anywhere;
  test::for_each_isa([&](Isa isa) {
    Tensor<float> reference;
    for (const int threads : {1, 2, 3, 8}) {
      const Context context = test::poisoned_context({.threads = threads, .isa = isa});
      ModuleCase<float> module(context, test::odd_config(70), 2, 70);
      Tape tape;
      context.set_tape(&tape);
      tape.watch(module.x);
      tape.watch(module.weights.W_key);
      const auto y = module.run(GetParam());
      tape.backward(y, Tensor<float>::full(context, y.sizes(), 0.01F));
      context.set_tape(nullptr);
      const auto gradient = tape.gradient(module.weights.W_key);
      if (reference.empty()) reference = gradient;
      EXPECT_TRUE(test::same_bits(reference, gradient)) << threads << " threads";
    }
    if (anywhere.empty()) anywhere = test::to_doubles(reference);
    EXPECT_TRUE(test::close(anywhere, reference, {1e-6, 1e-5}));
  });
}

}  // namespace
}  // namespace ennead
