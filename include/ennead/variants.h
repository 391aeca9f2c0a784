// SPDX-License-Identifier: Apache-2.0
// The nine, and one more: same weights in, same numbers out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ennead/attention.h"
#include "ennead/export.h"
#include "ennead/module.h"
#include "ennead/tensor.h"

ENNEAD_API_BEGIN
namespace ennead {

/// What may be asked of a call besides x. A variant refuses what it cannot honour.
template <class T>
struct CallOptions {
  AttentionMask<T> attn_mask;      ///< [num_tokens, num_tokens], [batch, heads, T, T] or broadcastable
  Tensor<bool> key_padding_block;  ///< [batch, num_tokens]; true: this key is padding, block it
  bool need_weights = false;
  bool average_attn_weights = true;
};

template <class T>
struct CallResult {
  Tensor<T> output;        ///< [batch, num_tokens, d_out]
  Tensor<T> attn_weights;  ///< empty, [batch, T, T] (averaged) or [batch, heads, T, T]
};

/// One of the ten. Made once (weights are packed then), called often.
template <class T>
class Variant {
 public:
  virtual ~Variant() = default;
  Variant(const Variant&) = delete;
  Variant& operator=(const Variant&) = delete;

  /// x [batch, num_tokens, d_in] -> [batch, num_tokens, d_out], with default_options(). Throws Error
  /// (expected, got) on a wrong shape, more tokens than context_length, or an option this variant
  /// does not take.
  Tensor<T> operator()(const Tensor<T>& x) const;
  CallResult<T> operator()(const Tensor<T>& x, const CallOptions<T>& options) const;

  /// What a call without options asks for: nothing, and of a variant that can return the weights those
  /// too, because the module that it follows returns them unless it is told not to.
  CallOptions<T> default_options() const;

  /// Training mode: dropout acts (variants 1-4). Throws Error where dropout > 0 cannot be honoured.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  const Config& config() const { return config_; }
  /// Its line in the list.
  const struct VariantInfo& info() const;

  /// Nothing when the call is fine, else why not.
  Refusal check(const Tensor<T>& x, const CallOptions<T>& options) const;

  /// Bytes a call needs at its peak beyond x and the weights, result included, with the context's
  /// threads and instruction set. Computes and allocates nothing.
  std::size_t workspace_bytes(const Context& context, std::int64_t batch, std::int64_t num_tokens) const;

 protected:
  Variant(int number, const Config& config) : config_(config), number_(number) {}
  /// One call. x and the options have passed check(): an option that kSupports does not name is not
  /// set here, so that a variant which takes none may leave `options` unread.
  virtual CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>& options) const = 0;

 private:
  Config config_;
  int number_;
  bool training_ = false;
};

/// What a variant can be asked for.
struct Supports {
  bool dropout = false;   ///< in training mode
  bool gradient = false;  ///< forward under a Tape
  bool attn_mask = false;
  bool key_padding_mask = false;
  bool need_weights = false;
};

struct VariantInfo {
  int number;
  std::string_view slug, title;
  int parent;  ///< number of the variant it changes; 0: none
  std::string_view change;
  Supports supports;
};

/// All variants, in reading order.
std::span<const VariantInfo> variants();

/// By number ("5") or slug ("fused_causal"); nullptr when there is none.
const VariantInfo* find_variant(std::string_view number_or_slug);
/// The sentence for an unknown one: lists what there is.
std::string unknown_variant(std::string_view number_or_slug);

/// Packs `weights` for one variant. Under a Tape the packing is recorded, so gradients reach the
/// canonical weights. Throws Error on a bad configuration or wrong weight shapes.
template <class T>
ENNEAD_API std::unique_ptr<Variant<T>> make_variant(const VariantInfo& info, const Config& config,
                                                    const Weights<T>& weights);

}  // namespace ennead
ENNEAD_API_END
