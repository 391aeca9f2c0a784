// SPDX-License-Identifier: Apache-2.0
// Operands for attention, and what the oracle says of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ennead/attention.h"
#include "oracle/compare.h"
#include "oracle/oracle.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead::test {

template <class T>
struct Operands {
  Tensor<T> query, key, value;

  oracle::AttentionShape shape() const {
    return {query.size(0), query.size(1), key.size(1), query.size(2), key.size(2), query.size(3), value.size(3)};
  }
};

template <class T>
Operands<T> random_operands(const Context& context, const oracle::AttentionShape& shape, Random& random) {
  const auto& [batch, heads, kv_heads, num_queries, num_keys, head_dim, value_dim] = shape;
  return {random_tensor<T>(context, {batch, heads, num_queries, head_dim}, random),
          random_tensor<T>(context, {batch, kv_heads, num_keys, head_dim}, random),
          random_tensor<T>(context, {batch, kv_heads, num_keys, value_dim}, random)};
}

/// The golden case G1: four queries and keys of head size 2, one head; default scale 1 / sqrt(2).
template <class T>
Operands<T> golden_operands(const Context& context) {
  return {from_doubles<T>(context, {1, 1, 4, 2}, {1, 1, 2, -1, 0, 1, 1, 2}),
          from_doubles<T>(context, {1, 1, 4, 2}, {1, 0, 0, 1, 1, 1, -1, 1}),
          from_doubles<T>(context, {1, 1, 4, 2}, {1, 10, 2, 20, 3, 30, 4, 40})};
}

/// One mask value by the rule of AttentionMask: two axes are shared, three begin with batch * heads.
template <class M>
M mask_at(const Tensor<M>& mask, std::int64_t heads, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  const auto step = [&](int axis, std::int64_t index) { return mask.size(axis) == 1 ? 0 : index * mask.stride(axis); };
  std::int64_t offset = step(-2, q) + step(-1, k);
  if (mask.rank() == 3) offset += step(0, b * heads + h);
  if (mask.rank() == 4) offset += step(0, b) + step(1, h);
  return mask.data()[offset];
}

template <class T>
oracle::Rules rules_of(const AttentionOptions<T>& options, const oracle::AttentionShape& shape) {
  oracle::Rules rules;
  rules.causal = options.is_causal;
  if (options.align == CausalAlign::bottom_right) rules.causal_offset = shape.num_keys - shape.num_queries;
  rules.scale = options.scale;
  if (!options.attn_mask.allowed.empty()) {
    rules.allow = [mask = options.attn_mask.allowed, heads = shape.heads](auto... at) {
      return mask_at(mask, heads, at...);
    };
  }
  if (!options.attn_mask.bias.empty()) {
    rules.bias = [mask = options.attn_mask.bias, heads = shape.heads](auto... at) {
      return static_cast<double>(mask_at(mask, heads, at...));
    };
  }
  return rules;
}

template <class T>
oracle::AttentionOutput expected_attention(const Operands<T>& operands, const oracle::Rules& rules) {
  return oracle::attention(operands.shape(), to_doubles(operands.query), to_doubles(operands.key),
                           to_doubles(operands.value), rules);
}
template <class T>
oracle::AttentionOutput expected_attention(const Operands<T>& operands, const AttentionOptions<T>& options) {
  return expected_attention(operands, rules_of(options, operands.shape()));
}

/// What variant 1 must keep for N(0, 1) inputs; others are held to it here too.
template <class T>
oracle::Tolerance attention_tolerance() {
  return oracle::first_tolerance(static_cast<double>(std::numeric_limits<T>::epsilon()));
}

}  // namespace ennead::test
