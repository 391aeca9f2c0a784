// SPDX-License-Identifier: Apache-2.0
// Every variant against the oracle, over all pairs of a number of tokens and a head size. The other
// choices (heads, batch, widths, biases, masks, layouts) are drawn for each pair.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "support/expect.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::kEpsilon;

struct Drawn {
  Config config;
  std::int64_t batch;
  std::string text;
};

Drawn draw(std::int64_t num_tokens, std::int64_t head_dim, test::Random& random) {
  const bool large = num_tokens > 200 || head_dim > 64;
  Drawn drawn;
  Config& config = drawn.config;
  config.num_heads = random.integer(2, large ? 3 : 5);
  config.d_out = config.num_heads * head_dim;
  do {
    config.d_in = random.integer(1, large ? 150 : 90);
  } while (config.d_in == config.d_out);
  config.context_length = num_tokens + random.integer(0, 2);
  config.qkv_bias = random.coin();
  config.out_bias = random.coin(0.7);
  config.is_causal = random.coin(0.7);
  drawn.batch = random.integer(2, large ? 2 : 4);
  drawn.text = sentence("batch ", drawn.batch, ", heads ", config.num_heads, ", d_in ", config.d_in, ", qkv_bias ",
                        config.qkv_bias, ", out_bias ", config.out_bias, ", causal ", config.is_causal);
  return drawn;
}

template <class T>
void check(std::int64_t num_tokens, const Drawn& drawn, Isa isa, std::uint64_t seed) {
  SCOPED_TRACE(sentence(sizeof(T) * 8, " bits, isa ", name(isa), ", ", drawn.text));
  test::Random random(seed);
  const Context context = test::poisoned_context({.threads = static_cast<int>(random.integer(1, 3)), .isa = isa});
  test::ModuleCase<T> module(context, drawn.config, drawn.batch, num_tokens, seed);
  // Inputs behind odd strides, with NaN where nobody may read.
  module.x = test::with_layout(module.x, test::kLayouts[random.integer(0, 3)]);
  test::for_each_weight(module.weights, [&](const char*, Tensor<T>& weight) {
    weight = test::with_layout(weight, test::kLayouts[random.integer(0, 3)]);
  });
  const auto x_before = test::copy_of(module.x);

  const auto rows = oracle::sample_rows(num_tokens);
  const oracle::JudgedRows expected = module.judged({}, rows);
  double error_of_first = 0;
  Tensor<T> first;
  for (const VariantInfo& info : variants()) {
    SCOPED_TRACE(sentence("variant ", info.number, " ", info.slug));
    const Tensor<T> y = module.run(info);
    ASSERT_EQ(to_string(y.sizes()), to_string({drawn.batch, num_tokens, drawn.config.d_out}));
    const auto tolerance = first.empty() ? oracle::first_tolerance(kEpsilon<T>)
                                         : oracle::tolerance_against_first(error_of_first, kEpsilon<T>);
    const auto compared =
        oracle::compare(expected.out, test::rows_of(y, rows), drawn.config.d_out, tolerance, expected.rounding);
    EXPECT_TRUE(compared.ok) << oracle::describe(compared);
    EXPECT_TRUE(test::same_bits(module.x, x_before)) << "x was changed";
    if (first.empty()) {
      first = y;
      error_of_first = compared.max_abs_err;
    } else {  // the rows that the oracle did not look at
      EXPECT_TRUE(test::close(test::to_doubles(first), y,
                              oracle::tolerance_between(error_of_first, kEpsilon<T>, expected.largest_rounding())));
    }
  }
}

class VariantGrid : public testing::TestWithParam<std::tuple<int, int>> {};

// Mutants seen by this grid: scale 1 / sqrt(d_out); bias of K dropped; heads split as rows; the last
// partial key tile unmasked; Q and K of the wrong head at head size 1.
TEST_P(VariantGrid, MatchesTheOracle) {
  const auto [num_tokens, head_dim] = GetParam();
  const auto isas = supported_isas();
  const auto seed = static_cast<std::uint64_t>(num_tokens * 1000 + head_dim);
  test::Random random(seed);
  for (int half = 0; half < 2; ++half) {
    const Drawn drawn = draw(num_tokens, head_dim, random);
    // The best instruction set always, the others in turn; the plain loops where they take no minute.
    std::vector<Isa> chosen{isas.front()};
    const Isa other = random.pick(isas);
    if (other != isas.front() && (other != Isa::scalar || num_tokens <= 300)) chosen.push_back(other);
    for (const Isa isa : chosen) {
      if (half == 0) {
        check<float>(num_tokens, drawn, isa, seed);
      } else {
        check<double>(num_tokens, drawn, isa, seed);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, VariantGrid,
                         testing::Combine(testing::Values(1, 2, 3, 7, 16, 17, 63, 64, 65, 129, 257, 1025),
                                          testing::Values(1, 8, 24, 63, 64, 80, 128)),
                         [](const auto& p) {
                           return sentence("tokens", std::get<0>(p.param), "_head", std::get<1>(p.param));
                         });

}  // namespace
}  // namespace ennead
