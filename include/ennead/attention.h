// SPDX-License-Identifier: Apache-2.0
// Attention without the score matrix: PyTorch's names where a function mirrors PyTorch's.
#pragma once

#include <cstdint>
#include <optional>

#include "ennead/flex.h"
#include "ennead/tensor.h"

namespace ennead {

/// A dense mask that says by its name what its values mean: never a bare boolean.
template <class T>
struct AttentionMask {
  Tensor<bool> allowed;  ///< true: this key may be seen
  Tensor<T> bias;        ///< added to the scaled score; -inf blocks

  static AttentionMask allow(Tensor<bool> mask) { return {std::move(mask), {}}; }
  /// From a mask in which true blocks (as key_padding_mask and the book's buffer do).
  static AttentionMask block(const Tensor<bool>& mask);
  static AttentionMask additive(Tensor<T> mask) { return {{}, std::move(mask)}; }
  bool empty() const { return allowed.empty() && bias.empty(); }
};

/// Where the causal diagonal starts when there are more keys than queries, or fewer.
enum class CausalAlign {
  top_left,     ///< key <= query
  bottom_right  ///< key <= query + num_keys - num_queries
};

template <class T>
struct AttentionOptions {
  AttentionMask<T> attn_mask;  ///< broadcast to [batch, heads, num_queries, num_keys]
  bool is_causal = false;
  CausalAlign align = CausalAlign::top_left;
  std::optional<double> scale;  ///< default 1 / sqrt(head_dim)
  bool enable_gqa = false;      ///< query head h uses key head h / (heads / kv_heads)
  bool return_lse = false;
};

template <class T>
struct AttentionResult {
  Tensor<T> output;  ///< [batch, heads, num_queries, value_dim]
  Tensor<T> lse;     ///< [batch, heads, num_queries] natural log of the sum of exponentials, if asked
};

/// softmax(scale * query key^T + masks) value for every head, exactly.
/// @param query [batch, heads, num_queries, head_dim]
/// @param key   [batch, kv_heads, num_keys, head_dim]
/// @param value [batch, kv_heads, num_keys, value_dim]
/// A row with no allowed key gives zeros and lse -inf. Throws Error: shapes, masks, gradients
/// wanted (the fused gradient comes later).
template <class T>
AttentionResult<T> scaled_dot_product_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                                                const AttentionOptions<T>& options = {},
                                                std::source_location where = std::source_location::current());

template <class T>
Refusal check_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                        const AttentionOptions<T>& options);

/// Attention weights rebuilt from the log-sum-exp: exp(scale * q k^T + masks - lse).
/// @return [batch, heads, num_queries, num_keys], or their mean over heads [batch, num_queries, num_keys]
template <class T>
Tensor<T> attention_weights(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& lse,
                            const AttentionOptions<T>& options, bool average,
                            std::source_location where = std::source_location::current());

/// nn.MultiheadAttention with batch first, self-attention: packed in-projection, options of the call.
template <class T>
class MultiheadAttention {
 public:
  struct Options {
    bool is_causal = false;
    AttentionMask<T> attn_mask;      ///< [L, L], [batch * heads, L, L] or broadcastable to [batch, heads, L, L]
    Tensor<bool> key_padding_block;  ///< [batch, L], true: padding
    bool need_weights = true;
    bool average_attn_weights = true;
  };
  struct Result {
    Tensor<T> output;        ///< [batch, L, d_out]
    Tensor<T> attn_weights;  ///< [batch, L, L], [batch, heads, L, L] or empty
  };

  /// @param in_proj_weight [3 * d_out, d_in]: rows of Q, then K, then V; biases may be empty
  MultiheadAttention(std::int64_t num_heads, Tensor<T> in_proj_weight, Tensor<T> in_proj_bias,
                     Tensor<T> out_proj_weight, Tensor<T> out_proj_bias);
  Result operator()(const Tensor<T>& x, const Options& options,
                    std::source_location where = std::source_location::current()) const;

 private:
  std::int64_t num_heads_;
  Linear<T> in_proj_, out_proj_;
};

/// The module as one call, ours (variant 10): projection, attention and output projection of a
/// head as one piece of work. Weights are packed once.
template <class T>
class PackedModule;

template <class T>
Tensor<T> multi_head_attention(const Tensor<T>& x, const PackedModule<T>& module,
                               std::source_location where = std::source_location::current());

}  // namespace ennead
