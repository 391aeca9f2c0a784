// SPDX-License-Identifier: Apache-2.0
// Modules to try the variants on, and what the oracle expects of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ennead/variants.h"
#include "oracle/compare.h"
#include "oracle/oracle.h"
#include "support/contexts.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead::test {

/// Calls body(name, tensor) for every weight and bias that is there, by the names of refusals.
template <class W, class Body>
void for_each_weight(W& weights, Body&& body) {
  const auto one = [&](const char* name, auto& tensor) {
    if (!tensor.empty()) body(name, tensor);
  };
  one("W_query", weights.W_query);
  one("W_key", weights.W_key);
  one("W_value", weights.W_value);
  one("W_query.bias", weights.b_query);
  one("W_key.bias", weights.b_key);
  one("W_value.bias", weights.b_value);
  one("out_proj.weight", weights.out_proj_weight);
  one("out_proj.bias", weights.out_proj_bias);
}

template <class T>
oracle::Module to_oracle(const Config& config, const Weights<T>& weights) {
  return {config.d_in,
          config.d_out,
          config.num_heads,
          to_doubles(weights.W_query),
          to_doubles(weights.W_key),
          to_doubles(weights.W_value),
          to_doubles(weights.b_query),
          to_doubles(weights.b_key),
          to_doubles(weights.b_value),
          to_doubles(weights.out_proj_weight),
          to_doubles(weights.out_proj_bias)};
}

/// A module with random weights, and an input for it.
template <class T>
struct ModuleCase {
  Config config;
  Weights<T> weights;
  Tensor<T> x;

  ModuleCase(const Context& context, const Config& c, std::int64_t batch, std::int64_t num_tokens,
             std::uint64_t seed = 1)
      : config(c),
        weights(Weights<T>::random(context, c, seed)),
        x(random_input<T>(context, batch, num_tokens, c.d_in, seed + 1)) {}

  std::unique_ptr<Variant<T>> make(const VariantInfo& info) const { return make_variant(info, config, weights); }
  Tensor<T> run(const VariantInfo& info) const { return (*make(info))(x); }

  /// What every variant must return, in float64; only the rows asked for, if any are named.
  std::vector<double> expected(oracle::Rules rules = {}, const std::vector<std::int64_t>& rows = {}) const {
    rules.causal = config.is_causal;
    return oracle::module_rows(to_oracle(config, weights), to_doubles(x), x.size(0), x.size(1), rules, rows);
  }

  /// The same, and how far rounding in T may move each row: for variants that are judged by another's error.
  oracle::JudgedRows judged(oracle::Rules rules = {}, const std::vector<std::int64_t>& rows = {}) const {
    rules.causal = config.is_causal;
    constexpr auto kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
    return oracle::judged_rows(to_oracle(config, weights), to_doubles(x), x.size(0), x.size(1), rules, rows, kEpsilon);
  }
};

/// A small module with nothing round about it: H, B > 1, d_in != d_out, all biases.
inline Config odd_config(std::int64_t context_length = 40) {
  return {.d_in = 11, .d_out = 21, .context_length = context_length, .num_heads = 3, .qkv_bias = true};
}

template <class T>
inline constexpr double kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());

/// Rows `rows` of every batch item of y [batch, num_tokens, d_out].
template <class T>
std::vector<double> rows_of(const Tensor<T>& y, const std::vector<std::int64_t>& rows) {
  std::vector<double> values;
  for (std::int64_t b = 0; b < y.size(0); ++b) {
    for (const std::int64_t row : rows) {
      for (std::int64_t d = 0; d < y.size(2); ++d) values.push_back(static_cast<double>(y.at({b, row, d})));
    }
  }
  return values;
}

/// One test per line of variants.def, named by its slug.
class OfEachVariant : public testing::TestWithParam<VariantInfo> {};

/// The variants that can be asked for something, e.g. &Supports::gradient; all when null.
inline std::vector<VariantInfo> variants_that_take(bool Supports::*what) {
  std::vector<VariantInfo> chosen;
  for (const VariantInfo& info : variants()) {
    if (what == nullptr || info.supports.*what) chosen.push_back(info);
  }
  return chosen;
}
#define ENNEAD_FOR_VARIANTS_THAT_TAKE(what, Suite)                                                 \
  INSTANTIATE_TEST_SUITE_P(Each, Suite, testing::ValuesIn(ennead::test::variants_that_take(what)), \
                           [](const auto& p) { return std::string(p.param.slug); });               \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Suite)
#define ENNEAD_FOR_EACH_VARIANT(Suite) ENNEAD_FOR_VARIANTS_THAT_TAKE(nullptr, Suite)

/// Variants 1 to 4 run step by step through memory, as eager code does.
inline bool is_eager(const VariantInfo& info) { return info.number <= 4; }

}  // namespace ennead::test

namespace ennead {
inline void PrintTo(const VariantInfo& info, std::ostream* out) { *out << info.number << " " << info.slug; }
}  // namespace ennead
