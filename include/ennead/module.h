// SPDX-License-Identifier: Apache-2.0
// What a multi-head attention module is made of: its shape and its weights, named as in the book.
#pragma once

#include <cstdint>

#include "ennead/error.h"
#include "ennead/export.h"
#include "ennead/tensor.h"

ENNEAD_API_BEGIN
namespace ennead {

/// The shape and options of a multi-head attention module; names as in the book.
struct Config {
  std::int64_t d_in = 768;
  std::int64_t d_out = 768;  ///< over all heads; divisible by num_heads
  std::int64_t context_length = 1024;
  double dropout = 0.0;  ///< probability, acts in training mode only
  std::int64_t num_heads = 12;
  bool qkv_bias = false;
  bool out_bias = true;
  bool is_causal = true;

  std::int64_t head_dim() const { return d_out / num_heads; }
};

/// Canonical weights, torch layouts. Biases are empty() where the config has none.
template <class T>
struct Weights {
  Tensor<T> W_query, W_key, W_value;  ///< [d_out, d_in]
  Tensor<T> b_query, b_key, b_value;  ///< [d_out]
  Tensor<T> out_proj_weight;          ///< [d_out, d_out]
  Tensor<T> out_proj_bias;            ///< [d_out]

  /// Uniform in +-1/sqrt(fan_in), as nn.Linear starts; the same numbers for every T and machine.
  static Weights random(const Context& context, const Config& config, std::uint64_t seed);
  /// The tensors, without values.
  static Weights uninitialized(const Context& context, const Config& config);
};

/// x ~ N(0, 1): [batch, num_tokens, d_in]; the same numbers for every T and machine.
template <class T>
ENNEAD_API Tensor<T> random_input(const Context& context, std::int64_t batch, std::int64_t num_tokens,
                                  std::int64_t d_in, std::uint64_t seed);

/// Nothing when the configuration makes sense, else why not.
Refusal check_config(const Config& config);
template <class T>
ENNEAD_API Refusal check_weights(const Config& config, const Weights<T>& weights);

}  // namespace ennead
ENNEAD_API_END
