// SPDX-License-Identifier: Apache-2.0
// Configurations, weights and inputs: checked, and drawn by position so that every machine and
// element type sees the same numbers.
#include "ennead/module.h"

#include <cmath>
#include <numbers>
#include <string_view>

#include "base/philox.h"

namespace ennead {
namespace {

// Which tensor a draw is for: the counter's last word.
enum Stream : std::uint32_t { kQuery, kKey, kValue, kOut, kQueryBias, kKeyBias, kValueBias, kOutBias, kInput };

base::PhiloxBlock words(std::uint64_t seed, std::int64_t block, Stream stream) {
  return base::philox(seed, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, stream});
}

template <class T, class Draw>
Tensor<T> filled(const Context& context, const Dims& sizes, Draw draw) {
  auto tensor = Tensor<T>::uninitialized(context, sizes);
  if (context.dry_run()) return tensor;
  constexpr std::int64_t kPerTask = 4096;
  const std::int64_t n = tensor.num_elements();
  context.executor().run((n + kPerTask - 1) / kPerTask, [&](std::int64_t task, int) {
    const std::int64_t end = std::min(n, (task + 1) * kPerTask);
    for (std::int64_t i = task * kPerTask; i < end; ++i) tensor.data()[i] = static_cast<T>(draw(i));
  });
  return tensor;
}

template <class T>
Tensor<T> uniform_tensor(const Context& context, const Dims& sizes, std::int64_t fan_in, std::uint64_t seed,
                         Stream stream) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return filled<T>(context, sizes, [=](std::int64_t i) {
    return (2 * base::uniform(words(seed, i / 4, stream)[static_cast<std::size_t>(i % 4)]) - 1) * bound;
  });
}

// The sizes of one member of Weights.
Dims weight_sizes(const Config& config) { return {config.d_out, config.d_in}; }
Dims bias_sizes(const Config& config) { return {config.d_out}; }
Dims out_sizes(const Config& config) { return {config.d_out, config.d_out}; }

template <class T>
Refusal check_one(std::string_view name, const Tensor<T>& tensor, bool wanted, const Dims& sizes) {
  if (!wanted) {
    if (tensor.empty()) return {};
    return sentence(name, ": expected none (the configuration has no such bias), got ", to_string(tensor.sizes()));
  }
  if (tensor.empty()) return sentence(name, ": expected ", to_string(sizes), ", got no tensor");
  if (tensor.sizes() == sizes) return {};
  return sentence(name, ": expected ", to_string(sizes), ", got ", to_string(tensor.sizes()));
}

}  // namespace

Refusal check_config(const Config& config) {
  const auto positive = [](std::string_view name, std::int64_t value) -> Refusal {
    if (value >= 1) return {};
    return sentence(name, ": expected 1 or more, got ", value);
  };
  if (auto refusal = positive("d_in", config.d_in); !refusal.ok()) return refusal;
  if (auto refusal = positive("d_out", config.d_out); !refusal.ok()) return refusal;
  if (auto refusal = positive("num_heads", config.num_heads); !refusal.ok()) return refusal;
  if (auto refusal = positive("context_length", config.context_length); !refusal.ok()) return refusal;
  if (config.d_out % config.num_heads != 0) {
    return sentence("d_out: expected a multiple of num_heads = ", config.num_heads, ", got ", config.d_out);
  }
  if (!(config.dropout >= 0 && config.dropout <= 1)) {
    return sentence("dropout: expected a probability in [0, 1], got ", config.dropout);
  }
  return {};
}

template <class T>
Refusal check_weights(const Config& config, const Weights<T>& weights) {
  const Dims weight = weight_sizes(config);
  const Dims bias = bias_sizes(config);
  if (auto refusal = check_one("W_query", weights.W_query, true, weight); !refusal.ok()) return refusal;
  if (auto refusal = check_one("W_key", weights.W_key, true, weight); !refusal.ok()) return refusal;
  if (auto refusal = check_one("W_value", weights.W_value, true, weight); !refusal.ok()) return refusal;
  if (auto refusal = check_one("W_query.bias", weights.b_query, config.qkv_bias, bias); !refusal.ok()) return refusal;
  if (auto refusal = check_one("W_key.bias", weights.b_key, config.qkv_bias, bias); !refusal.ok()) return refusal;
  if (auto refusal = check_one("W_value.bias", weights.b_value, config.qkv_bias, bias); !refusal.ok()) return refusal;
  if (auto refusal = check_one("out_proj.weight", weights.out_proj_weight, true, out_sizes(config)); !refusal.ok())
    return refusal;
  return check_one("out_proj.bias", weights.out_proj_bias, config.out_bias, bias);
}

template <class T>
Weights<T> Weights<T>::random(const Context& context, const Config& config, std::uint64_t seed) {
  require(check_config(config));
  const auto weight = [&](Stream stream) {
    return uniform_tensor<T>(context, weight_sizes(config), config.d_in, seed, stream);
  };
  const auto bias = [&](bool wanted, std::int64_t fan_in, Stream stream) {
    return wanted ? uniform_tensor<T>(context, bias_sizes(config), fan_in, seed, stream) : Tensor<T>();
  };
  Weights weights;
  weights.W_query = weight(kQuery);
  weights.W_key = weight(kKey);
  weights.W_value = weight(kValue);
  weights.b_query = bias(config.qkv_bias, config.d_in, kQueryBias);
  weights.b_key = bias(config.qkv_bias, config.d_in, kKeyBias);
  weights.b_value = bias(config.qkv_bias, config.d_in, kValueBias);
  weights.out_proj_weight = uniform_tensor<T>(context, out_sizes(config), config.d_out, seed, kOut);
  weights.out_proj_bias = bias(config.out_bias, config.d_out, kOutBias);
  return weights;
}

template <class T>
Weights<T> Weights<T>::uninitialized(const Context& context, const Config& config) {
  require(check_config(config));
  const auto tensor = [&](const Dims& sizes) { return Tensor<T>::uninitialized(context, sizes); };
  Weights weights;
  for (Tensor<T>* weight : {&weights.W_query, &weights.W_key, &weights.W_value}) *weight = tensor(weight_sizes(config));
  if (config.qkv_bias) {
    for (Tensor<T>* bias : {&weights.b_query, &weights.b_key, &weights.b_value}) *bias = tensor(bias_sizes(config));
  }
  weights.out_proj_weight = tensor(out_sizes(config));
  if (config.out_bias) weights.out_proj_bias = tensor(bias_sizes(config));
  return weights;
}

template <class T>
Tensor<T> random_input(const Context& context, std::int64_t batch, std::int64_t num_tokens, std::int64_t d_in,
                       std::uint64_t seed) {
  require(check_sizes({batch, num_tokens, d_in}, sizeof(T)));
  return filled<T>(context, {batch, num_tokens, d_in}, [=](std::int64_t i) {
    // Box and Muller's transform; 1 - u keeps the logarithm finite.
    const base::PhiloxBlock block = words(seed, i, kInput);
    const double radius = std::sqrt(-2 * std::log(1 - base::uniform(block[0])));
    return radius * std::cos(2 * std::numbers::pi * base::uniform(block[1]));
  });
}

#define ENNEAD_INSTANTIATE(T)                                       \
  template struct Weights<T>;                                       \
  template Refusal check_weights(const Config&, const Weights<T>&); \
  template Tensor<T> random_input(const Context&, std::int64_t, std::int64_t, std::int64_t, std::uint64_t);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
