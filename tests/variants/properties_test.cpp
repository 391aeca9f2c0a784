// SPDX-License-Identifier: Apache-2.0
// What holds for every variant whatever the numbers are: causality, independence of batch items and
// threads, permutations, strides, NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "support/expect.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::kEpsilon;
using test::ModuleCase;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class VariantProperties : public test::OfEachVariant {};
ENNEAD_FOR_EACH_VARIANT(VariantProperties);

/// Rows [0, t) of every batch item.
template <class T>
Tensor<T> head_rows(const Tensor<T>& y, std::int64_t t) {
  return narrow(y, 1, 0, t);
}

Config causal_config(std::int64_t num_tokens) { return test::odd_config(num_tokens); }

// K2. Mutants: key <= query + 1; a tile's mask skipped when its first row needs none.
TEST_P(VariantProperties, TheFutureMovesNothing) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    test::Random random(1);
    for (const std::int64_t num_tokens : {2, 17, 66, 130}) {
      ModuleCase<float> module(context, causal_config(num_tokens), 2, num_tokens);
      const auto variant = module.make(GetParam());
      const auto before = (*variant)(module.x);
      for (int round = 0; round < 4; ++round) {
        const std::int64_t t = random.integer(1, num_tokens - 1);
        auto changed = test::copy_of(module.x);
        for (std::int64_t b = 0; b < 2; ++b) {
          for (std::int64_t row = t; row < num_tokens; ++row) {
            for (std::int64_t d = 0; d < changed.size(2); ++d) {
              changed.at({b, row, d}) = static_cast<float>(100 * random.normal());
            }
          }
        }
        const auto after = (*variant)(changed);
        EXPECT_TRUE(test::same_bits(head_rows(before, t), head_rows(after, t))) << num_tokens << " at " << t;
        EXPECT_FALSE(test::same_bits(before, after));
      }
    }
  });
}

// Without the mask every token counts for every row.
TEST_P(VariantProperties, WithoutMaskTheFutureCounts) {
  const Context context = test::poisoned_context();
  Config config = causal_config(20);
  config.is_causal = false;
  ModuleCase<float> module(context, config, 2, 20);
  const auto variant = module.make(GetParam());
  const auto before = (*variant)(module.x);
  module.x.at({1, 19, 3}) += 1;
  const auto after = (*variant)(module.x);
  for (std::int64_t row = 0; row < 20; ++row) {
    EXPECT_TRUE(test::same_bits(select(select(before, 0, 0), 0, row), select(select(after, 0, 0), 0, row)));
    EXPECT_FALSE(test::same_bits(select(select(before, 0, 1), 0, row), select(select(after, 0, 1), 0, row)));
  }
}

// NaN in a token reaches its own row and all later ones. Earlier rows: the fused variants never read
// what is blocked; eager code multiplies it by 0 and so lets it through, as eager code does.
TEST_P(VariantProperties, NaNInTheFuture) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    for (const std::int64_t num_tokens : {5, 70}) {
      ModuleCase<float> module(context, causal_config(num_tokens), 2, num_tokens);
      const auto variant = module.make(GetParam());
      const auto clean = (*variant)(module.x);
      for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
        const std::int64_t at = num_tokens - 3;
        auto x = test::copy_of(module.x);
        x.at({0, at, 2}) = bad;
        const auto y = (*variant)(x);
        EXPECT_TRUE(test::same_bits(select(clean, 0, 1), select(y, 0, 1))) << "the other batch item";
        for (std::int64_t row = at; row < num_tokens; ++row) EXPECT_TRUE(std::isnan(y.at({0, row, 0}))) << row;
        if (test::is_eager(GetParam())) {
          EXPECT_TRUE(std::isnan(y.at({0, 0, 0})));
        } else {
          const auto earlier = [&](const Tensor<float>& all) { return narrow(narrow(all, 0, 0, 1), 1, 0, at); };
          EXPECT_TRUE(test::same_bits(earlier(clean), earlier(y)));
        }
      }
    }
  });
}

/// Runs tasks backwards and gives them worker numbers of its own.
class Backwards final : public Executor {
 public:
  int num_threads() const noexcept override { return 5; }
  void run(std::int64_t n, Task task) override {
    for (std::int64_t index = n; index-- > 0;) task(index, static_cast<int>(index % 5));
  }
};

// K12. Mutants: a reduction in order of arrival; work split by the number of threads.
TEST_P(VariantProperties, SameBitsForAnyThreads) {
  test::for_each_isa([&](Isa isa) {
    for (const std::int64_t num_tokens : {3, 67, 190}) {
      Tensor<float> reference;
      for (const int threads : {1, 2, 3, 8, 0}) {
        Context::Options options;
        options.isa = isa;
        options.arena.poison = true;
        if (threads > 0) {
          options.threads = threads;
        } else {
          options.executor = std::make_shared<Backwards>();
        }
        const Context context(options);
        const auto y = ModuleCase<float>(context, causal_config(num_tokens), 3, num_tokens).run(GetParam());
        if (reference.empty()) reference = y;
        EXPECT_TRUE(test::same_bits(reference, y)) << threads << " threads, " << num_tokens << " tokens";
      }
    }
  });
}

// K12 (PyTorch issue 34060), K6. Mutant: rows of two batch items share a tile of the projection
// whose last rows are summed otherwise.
TEST_P(VariantProperties, AloneOrInABatch) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    for (const std::int64_t num_tokens : {1, 3, 37, 64}) {
      const ModuleCase<float> module(context, causal_config(num_tokens), 8, num_tokens);
      const auto variant = module.make(GetParam());
      const auto all = (*variant)(module.x);
      for (const std::int64_t b : {0, 3, 7}) {
        const auto alone = (*variant)(narrow(module.x, 0, b, 1));
        EXPECT_TRUE(test::same_bits(narrow(all, 0, b, 1), alone)) << b << " of " << num_tokens << " tokens";
      }
      // The items in another order.
      const std::vector<Tensor<float>> swapped{narrow(module.x, 0, 4, 4), narrow(module.x, 0, 0, 4)};
      const auto other = (*variant)(cat<float>(swapped, 0));
      EXPECT_TRUE(test::same_bits(narrow(all, 0, 0, 4), narrow(other, 0, 4, 4)));
      EXPECT_TRUE(test::same_bits(narrow(all, 0, 4, 4), narrow(other, 0, 0, 4)));
    }
  });
}

// Rows up to t do not depend on how many tokens follow: the same bits as a shorter sequence. Mutant: the
// block mask of a shorter call cut with the rows of the whole.
TEST_P(VariantProperties, PrefixOfASequence) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    const ModuleCase<float> module(context, causal_config(300), 2, 140);
    const auto variant = module.make(GetParam());
    const auto all = (*variant)(module.x);
    for (const std::int64_t t : {1, 2, 17, 63, 64, 129}) {
      const auto prefix = (*variant)(narrow(module.x, 1, 0, t));
      // A mask made for more tokens blocks what one made for these does.
      Config short_config = module.config;
      short_config.context_length = t;
      const auto made_for_it = make_variant(GetParam(), short_config, module.weights);
      EXPECT_TRUE(test::same_bits(prefix, (*made_for_it)(narrow(module.x, 1, 0, t)))) << t;
      if (test::is_eager(GetParam())) {
        EXPECT_TRUE(test::close(test::to_doubles(head_rows(all, t)), prefix, {2e-6, 0})) << t;
      } else {
        EXPECT_TRUE(test::same_bits(head_rows(all, t), prefix)) << t;
      }
    }
  });
}

// K6 (FuxiCTR issue 30). Heads in another order, in all weights at once, change nothing but rounding.
// Mutant: heads split by rows instead of columns (one head hides it).
TEST_P(VariantProperties, HeadOrder) {
  const Context context = test::poisoned_context();
  const ModuleCase<double> module(context, causal_config(19), 2, 19);
  auto permuted = module;
  const std::int64_t d = module.config.head_dim(), order[] = {2, 0, 1};
  const auto reorder = [&](const Tensor<double>& weight, int axis) {
    std::vector<Tensor<double>> parts;
    for (const std::int64_t head : order) parts.push_back(narrow(weight, axis, head * d, d));
    return cat<double>(parts, axis);
  };
  for (Tensor<double> Weights<double>::*weight :
       {&Weights<double>::W_query, &Weights<double>::W_key, &Weights<double>::W_value, &Weights<double>::b_query,
        &Weights<double>::b_key, &Weights<double>::b_value}) {
    permuted.weights.*weight = reorder(module.weights.*weight, 0);
  }
  permuted.weights.out_proj_weight = reorder(module.weights.out_proj_weight, 1);
  const auto expected = test::to_doubles(module.run(GetParam()));
  EXPECT_TRUE(test::close(expected, permuted.run(GetParam()), {1e-14, 0}));
}

// Without a mask attention does not know the order of tokens.
TEST_P(VariantProperties, TokenOrder) {
  const Context context = test::poisoned_context();
  Config config = causal_config(19);
  config.is_causal = false;
  ModuleCase<double> module(context, config, 2, 19);
  const auto straight = test::to_doubles(module.run(GetParam()));
  const auto x = module.x;
  module.x = Tensor<double>(x.storage(), x.data() + 18 * x.stride(1), x.sizes(), {x.stride(0), -x.stride(1), 1});
  const auto y = module.run(GetParam());
  const auto back =
      Tensor<double>(y.storage(), y.data() + 18 * y.stride(1), y.sizes(), {y.stride(0), -y.stride(1), y.stride(2)});
  EXPECT_TRUE(test::close(straight, back, {1e-14, 0}));
}

// K6. The same numbers behind any strides give the same bits, stride 0 among them.
TEST_P(VariantProperties, AnyStrides) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    const ModuleCase<float> module(context, causal_config(33), 3, 33);
    const auto variant = module.make(GetParam());
    const auto plain = (*variant)(module.x);
    for (const test::Layout layout : test::kLayouts) {
      EXPECT_TRUE(test::same_bits(plain, (*variant)(test::with_layout(module.x, layout)))) << static_cast<int>(layout);
    }
    const auto token = narrow(narrow(module.x, 0, 0, 1), 1, 0, 1);
    const Tensor<float> expanded(token.storage(), token.data(), {3, 33, 11}, {0, 0, 1});
    EXPECT_TRUE(test::same_bits((*variant)(test::copy_of(expanded)), (*variant)(expanded)));
    const Tensor<float> constant(token.storage(), token.data(), {3, 33, 11}, {0, 0, 0});
    EXPECT_TRUE(test::same_bits((*variant)(test::copy_of(constant)), (*variant)(constant)));
  });
}

TEST_P(VariantProperties, NothingToDo) {
  const Context context = test::poisoned_context();
  const ModuleCase<float> module(context, causal_config(8), 2, 8);
  const auto variant = module.make(GetParam());
  EXPECT_EQ(to_string((*variant)(Tensor<float>::full(context, {0, 8, 11}, 0)).sizes()), "[0, 8, 21]");
  EXPECT_EQ(to_string((*variant)(Tensor<float>::full(context, {2, 0, 11}, 0)).sizes()), "[2, 0, 21]");
}

// A made variant may be called again and again, with other shapes, and returns what it took.
TEST_P(VariantProperties, CallsAreIndependent) {
  const Context context = test::poisoned_context();
  const ModuleCase<float> module(context, causal_config(50), 3, 50);
  const auto variant = module.make(GetParam());
  const std::size_t before = context.arena().bytes_in_use();
  const auto first = (*variant)(module.x);
  (*variant)(narrow(narrow(module.x, 0, 1, 1), 1, 0, 7));
  EXPECT_TRUE(test::same_bits(first, (*variant)(module.x)));
  EXPECT_EQ(context.arena().bytes_in_use(), before + first.storage()->bytes);
}

// The weights may live in a context with another instruction set or other threads than x.
TEST_P(VariantProperties, WeightsAndInputFromTwoContexts) {
  test::for_each_isa([&](Isa isa) {
    const Context theirs = test::poisoned_context({.threads = 1, .isa = isa});
    const Context mine = test::poisoned_context({.threads = 3});
    const ModuleCase<float> module(theirs, causal_config(21), 2, 21);
    const auto y = (*module.make(GetParam()))(test::copy_of(module.x, mine));
    EXPECT_TRUE(test::close(module.expected(), y, oracle::first_tolerance(kEpsilon<float>)));
  });
}

// Two contexts on two threads know nothing of each other.
TEST_P(VariantProperties, TwoContextsOnTwoThreads) {
  const ModuleCase<float> module(test::poisoned_context(), causal_config(40), 2, 40);
  const auto expected = module.run(GetParam());
  bool same[2] = {false, false};
  const auto work = [&](bool& ok) {
    ok = true;
    for (int round = 0; round < 10; ++round) {
      const ModuleCase<float> own(test::poisoned_context(), causal_config(40), 2, 40);
      ok = ok && test::same_bits(expected, own.run(GetParam()));
    }
  };
  std::thread other([&] { work(same[0]); });
  work(same[1]);
  other.join();
  EXPECT_TRUE(same[0] && same[1]);
}

}  // namespace
}  // namespace ennead
