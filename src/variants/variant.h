// SPDX-License-Identifier: Apache-2.0
// What the variants' files share: how one enters the list, and the pieces around the idea.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "ennead/ops.h"
#include "ennead/variants.h"

namespace ennead::nine {

inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// The upper left [n, n] of a mask buffer made for the whole context length.
inline Tensor<bool> top_left(const Tensor<bool>& mask, std::int64_t n) {
  return narrow(narrow(mask, 0, 0, n), 1, 0, n);
}

/// A projection for each head, made of the head's own rows of a weight [d_out, d_in] and of a bias
/// that may not be there.
template <class T>
std::vector<Linear<T>> per_head(const Tensor<T>& weight, const Tensor<T>& bias, std::int64_t num_heads) {
  const std::int64_t head_dim = weight.size(0) / num_heads;
  std::vector<Linear<T>> heads;
  for (std::int64_t head = 0; head < num_heads; ++head) {
    heads.emplace_back(narrow(weight, 0, head * head_dim, head_dim),
                       bias.empty() ? bias : narrow(bias, 0, head * head_dim, head_dim));
  }
  return heads;
}

/// Three weights (or biases, which may not be there) one above the other.
template <class T>
Tensor<T> stacked(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value) {
  if (query.empty()) return query;
  const std::array parts{query, key, value};
  return cat(std::span<const Tensor<T>>(parts), 0);
}

}  // namespace ennead::nine

/// The last line of a variant's file: Class<T> is what variants.def calls `slug`. It has a
/// constructor (int number, const Config&, const Weights<T>&) and a constant kSupports.
#define ENNEAD_VARIANT_CLASS(slug, Class)                                                                \
  namespace ennead::nine {                                                                               \
  extern const Supports supports_##slug;                                                                 \
  const Supports supports_##slug = Class<float>::kSupports;                                              \
  template <class T>                                                                                     \
  std::unique_ptr<Variant<T>> make_##slug(int number, const Config& config, const Weights<T>& weights) { \
    return std::make_unique<Class<T>>(number, config, weights);                                          \
  }                                                                                                      \
  template std::unique_ptr<Variant<float>> make_##slug(int, const Config&, const Weights<float>&);       \
  template std::unique_ptr<Variant<double>> make_##slug(int, const Config&, const Weights<double>&);     \
  }
