// SPDX-License-Identifier: Apache-2.0
// From Tensors and options to what the attention kernel takes.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "attention/mask.h"
#include "ennead/attention.h"
#include "ennead/tape.h"
#include "kernels/kernels.h"

namespace ennead::attention {

template <class T>
ScoreShape score_shape(const Tensor<T>& query, const Tensor<T>& key) {
  return {query.size(0), query.size(1), query.size(2), key.size(2)};
}

/// Shapes of query, key and (unless it is empty) value.
template <class T>
Refusal check_shapes(const char* op, const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                     bool enable_gqa) {
  if (query.empty() || key.empty()) return sentence(op, ": expected a query and a key, got an empty handle");
  if (query.rank() != 4) {
    return sentence(op, ": expected query [batch, heads, num_queries, head_dim], got ", to_string(query.sizes()));
  }
  if (query.size(1) == 0 || query.size(3) == 0) {
    return sentence(op, ": expected at least 1 head and a head_dim of at least 1, got query ",
                    to_string(query.sizes()));
  }
  if (key.rank() != 4 || key.size(0) != query.size(0) || key.size(3) != query.size(3)) {
    return sentence(op, ": expected key [", query.size(0), ", kv_heads, num_keys, ", query.size(3), "], got ",
                    to_string(key.sizes()));
  }
  if (!value.empty() && (value.rank() != 4 || value.size(0) != key.size(0) || value.size(1) != key.size(1) ||
                         value.size(2) != key.size(2))) {
    return sentence(op, ": expected value [", key.size(0), ", ", key.size(1), ", ", key.size(2), ", value_dim], got ",
                    to_string(value.sizes()));
  }
  const std::int64_t heads = query.size(1), kv_heads = key.size(1);
  if (heads == kv_heads) return {};
  if (!enable_gqa) {
    return sentence(op, ": expected as many key heads as query heads, ", heads, ", or enable_gqa, got ", kv_heads);
  }
  if (kv_heads == 0 || heads % kv_heads != 0) {
    return sentence(op, ": expected a number of key heads that divides the ", heads, " query heads, got ", kv_heads);
  }
  return {};
}

template <class T>
Refusal check_scale(const char* op, const std::optional<double>& scale) {
  if (!scale || std::isfinite(static_cast<T>(*scale))) return {};
  return sentence(op, ": expected a finite scale, got ", *scale);
}

/// Refuses when a gradient is wanted for one of the operands: a result without it would be wrong in
/// silence.
template <class T>
Refusal check_no_gradient(const char* op, const Context& context, std::initializer_list<const Tensor<T>*> operands) {
  const Tape* tape = context.tape();
  if (tape == nullptr) return {};
  for (const Tensor<T>* operand : operands) {
    if (tape->tracks(*operand)) {
      return sentence(op,
                      ": expected operands without a gradient, got one that a tape tracks; the gradient of fused "
                      "attention is not there yet (variants 1-4 have theirs)");
    }
  }
  return {};
}

template <class T>
Sum<T> scale_or_default(const std::optional<double>& scale, std::int64_t head_dim) {
  return static_cast<Sum<T>>(scale ? *scale : 1.0 / std::sqrt(static_cast<double>(head_dim)));
}

/// Everything but value, out, lse and blocks.
template <class T>
kernels::AttentionArgs<T> make_arguments(const Tensor<T>& query, const Tensor<T>& key,
                                         const AttentionOptions<T>& options) {
  const ScoreShape shape = score_shape(query, key);
  kernels::AttentionArgs<T> args;
  args.q = query.template view<4>();
  args.k = key.template view<4>();
  args.scale = scale_or_default<T>(options.scale, query.size(3));
  args.causal = options.is_causal;
  args.causal_offset = options.align == CausalAlign::bottom_right ? shape.num_keys - shape.num_queries : 0;
  args.allow = broadcast(options.attn_mask.allowed, shape);
  args.bias = broadcast(options.attn_mask.bias, shape);
  return args;
}

/// Keys from this one on are in the future of `query`.
template <class T>
std::int64_t causal_end(const kernels::AttentionArgs<T>& args, std::int64_t query) {
  return args.causal ? kernels::causal_limit(query, args.causal_offset, args.k.size(2)) : args.k.size(2);
}

/// Pairs (batch, head, query, key) that the masks in `args`, block masks apart, let see each other.
template <class T>
double visible_pairs(const kernels::AttentionArgs<T>& args);

}  // namespace ennead::attention
