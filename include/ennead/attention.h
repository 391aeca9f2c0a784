// SPDX-License-Identifier: Apache-2.0
// Attention without the score matrix: PyTorch's names where a function mirrors PyTorch's.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

#include "ennead/dtype.h"
#include "ennead/export.h"
#include "ennead/module.h"
#include "ennead/ops.h"
#include "ennead/tensor.h"

ENNEAD_API_BEGIN
namespace ennead {

// -- masks ------------------------------------------------------------------------------------

/// A dense mask that says by its name what its values mean: never a bare boolean.
///
/// One shape rule, for every function that takes one. With batch, heads, num_queries, num_keys:
///   [num_queries, num_keys]                 shared by all heads
///   [batch * heads, num_queries, num_keys]  one for each head of each batch item
///   [batch, heads, num_queries, num_keys]   the same, by name
/// An axis of size 1 stands for all its indices.
///
/// A mask of the keys of each batch item, [batch, num_keys], is none of these: two axes are always queries and
/// keys, also where batch happens to equal num_queries. Padding goes into key_padding_block where a function
/// has it, else into a mask of sizes [batch, 1, 1, num_keys].
template <class T>
struct AttentionMask {
  Tensor<bool> allowed;  ///< true: this key may be seen
  Tensor<T> bias;        ///< added to the scaled score; -inf blocks

  static AttentionMask allow(Tensor<bool> mask) { return {std::move(mask), {}}; }
  /// From a mask in which true blocks (as key_padding_mask and the book's buffer do).
  static AttentionMask block(const Tensor<bool>& mask, Where where = Where::current());
  static AttentionMask additive(Tensor<T> mask) { return {{}, std::move(mask)}; }
  bool empty() const { return allowed.empty() && bias.empty(); }
};

/// Nothing when the mask fits the shape by that rule.
template <class T>
ENNEAD_API Refusal check_attn_mask(const AttentionMask<T>& mask, std::int64_t batch, std::int64_t heads,
                                   std::int64_t num_queries, std::int64_t num_keys);

/// True where both masks are true; sizes broadcast from the last axis.
Tensor<bool> logical_and(const Tensor<bool>& a, const Tensor<bool>& b, Where where = Where::current());

/// Where the causal diagonal starts when there are more keys than queries, or fewer.
enum class CausalAlign {
  top_left,     ///< key <= query
  bottom_right  ///< key <= query + num_keys - num_queries: the last query sees every key
};

// -- attention --------------------------------------------------------------------------------

template <class T>
struct AttentionOptions {
  AttentionMask<T> attn_mask = {};  ///< all that is given here is combined by AND
  bool is_causal = false;
  CausalAlign align = CausalAlign::top_left;
  std::optional<double> scale = {};  ///< default 1 / sqrt(head_dim); any finite number
  bool enable_gqa = false;           ///< query head h uses key head h / (heads / kv_heads)
  bool return_lse = false;
};

template <class T>
struct AttentionResult {
  /// [batch, heads, num_queries, value_dim], in memory token by token: transpose(output, 1, 2) is
  /// contiguous, so merging the heads copies nothing.
  Tensor<T> output;
  Tensor<Sum<T>> lse;  ///< [batch, heads, num_queries] natural log of the sum of exponentials, if asked
};

/// softmax(scale * query key^T + masks) value for every head, exactly, without the score matrix.
/// @param query [batch, heads, num_queries, head_dim]
/// @param key   [batch, kv_heads, num_keys, head_dim]
/// @param value [batch, kv_heads, num_keys, value_dim]
/// A row with no allowed key gives zeros and lse -inf. What a mask blocks is never read into a
/// result. Throws Error as check_attention() says.
template <class T>
ENNEAD_API AttentionResult<T> scaled_dot_product_attention(const Tensor<T>& query, const Tensor<T>& key,
                                                           const Tensor<T>& value,
                                                           const AttentionOptions<T>& options = {},
                                                           Where where = Where::current());

/// Nothing when the call is fine; else what is wrong with a shape, a mask or the scale, or that a
/// tape tracks an operand (the gradient of fused attention is not there yet).
template <class T>
ENNEAD_API Refusal check_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                                   const AttentionOptions<T>& options);

/// The weights that scaled_dot_product_attention() multiplies with the values, rebuilt a block of
/// query rows at a time; no other matrix of their size is in memory.
/// @param average the mean over heads instead of every head
/// @return [batch, heads, num_queries, num_keys], or [batch, num_queries, num_keys] when averaged;
///         exact zeros where a mask blocks; each row sums to 1, or to 0 when no key is allowed
template <class T>
ENNEAD_API Tensor<T> attention_weights(const Tensor<T>& query, const Tensor<T>& key, const AttentionOptions<T>& options,
                                       bool average, Where where = Where::current());

// -- modules ----------------------------------------------------------------------------------

/// nn.MultiheadAttention with batch first, self-attention: packed in-projection, options of the call.
template <class T>
class MultiheadAttention {
 public:
  struct Options {
    bool is_causal = false;
    AttentionMask<T> attn_mask = {};      ///< for [batch, heads, L, L], by the rule of AttentionMask
    Tensor<bool> key_padding_block = {};  ///< [batch, L], true: padding
    bool need_weights = true;             ///< never changes the output
    bool average_attn_weights = true;
  };
  struct Result {
    Tensor<T> output;        ///< [batch, L, d_out]
    Tensor<T> attn_weights;  ///< [batch, L, L] averaged over heads, [batch, heads, L, L] or empty
  };

  /// @param in_proj_weight  [3 * d_out, d_in]: the rows of Q, then K, then V
  /// @param in_proj_bias    [3 * d_out] or empty
  /// @param out_proj_weight [d_out, d_out]; d_out is divisible by num_heads
  /// @param out_proj_bias   [d_out] or empty
  MultiheadAttention(std::int64_t num_heads, const Tensor<T>& in_proj_weight, const Tensor<T>& in_proj_bias,
                     const Tensor<T>& out_proj_weight, const Tensor<T>& out_proj_bias);

  /// @param x [batch, L, d_in]
  Result operator()(const Tensor<T>& x, const Options& options = Options(), Where where = Where::current()) const;

  /// Nothing when the call is fine, else what is wrong with x or a mask.
  Refusal check(const Tensor<T>& x, const Options& options) const;

 private:
  std::int64_t num_heads_;
  Linear<T> in_proj_, out_proj_;
};

/// The weights of a module, packed once for multi_head_attention() and for the instruction set of
/// their context.
template <class T>
class PackedModule {
 public:
  /// Throws Error: a bad configuration, weights of wrong shapes, or weights a tape tracks (the
  /// gradient of the fused module is not there yet).
  PackedModule(const Config& config, const Weights<T>& weights);

  const Config& config() const { return config_; }
  const Context& context() const { return packed_.context(); }
  /// As the kernels of context().isa() lay them out.
  const Tensor<PackedByte>& weights() const { return packed_; }

 private:
  Config config_;
  Tensor<PackedByte> packed_;
};

/// Multi-head self-attention as one call: projection, attention and output projection of a head as
/// one piece of work. For inference: dropout never acts.
/// @param x [batch, num_tokens, d_in], any number of tokens
/// @return  [batch, num_tokens, d_out]
template <class T>
ENNEAD_API Tensor<T> multi_head_attention(const Tensor<T>& x, const PackedModule<T>& module,
                                          Where where = Where::current());

/// The same from and into the caller's memory, on the module's context.
/// @param x   [batch, num_tokens, d_in], any strides
/// @param out [batch, num_tokens, d_out], any strides that keep elements apart; overwritten. It may share
///            memory with x: all of x is read before anything is written.
template <class T>
ENNEAD_API void multi_head_attention(std::type_identity_t<View<const T, 3>> x, const PackedModule<T>& module,
                                     std::type_identity_t<View<T, 3>> out);

/// Nothing when the call is fine; else what is wrong with x, or that a tape tracks it.
template <class T>
ENNEAD_API Refusal check_multi_head_attention(const Tensor<T>& x, const PackedModule<T>& module);

/// Nothing when the call is fine; else what is wrong with x or out: sizes, a null pointer where there are
/// elements, elements of out that share memory.
template <class T>
ENNEAD_API Refusal check_multi_head_attention(std::type_identity_t<View<const T, 3>> x, const PackedModule<T>& module,
                                              std::type_identity_t<View<T, 3>> out);

}  // namespace ennead
ENNEAD_API_END
