// SPDX-License-Identifier: Apache-2.0
// Between the library's modules and the oracle's.
#pragma once

#include <cstdint>
#include <vector>

#include "ennead/variants.h"
#include "oracle/oracle.h"
#include "support/tensors.h"

namespace ennead::test {

/// Calls body(name, tensor) for every weight and bias that is there.
template <class W, class Body>
void for_each_weight(W& weights, Body&& body) {
  const auto one = [&](const char* name, auto& tensor) {
    if (!tensor.empty()) body(name, tensor);
  };
  one("W_query", weights.W_query);
  one("W_key", weights.W_key);
  one("W_value", weights.W_value);
  one("b_query", weights.b_query);
  one("b_key", weights.b_key);
  one("b_value", weights.b_value);
  one("out_proj_weight", weights.out_proj_weight);
  one("out_proj_bias", weights.out_proj_bias);
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

/// All rows of what a variant must return for x, in float64.
template <class T>
std::vector<double> expected_output(const Config& config, const Weights<T>& weights, const Tensor<T>& x,
                                    oracle::Rules rules = {}, const std::vector<std::int64_t>& rows = {}) {
  rules.causal = config.is_causal;
  return oracle::module_rows(to_oracle(config, weights), to_doubles(x), x.size(0), x.size(1), rules, rows);
}

}  // namespace ennead::test
