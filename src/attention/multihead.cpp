// SPDX-License-Identifier: Apache-2.0
#include "attention/mask.h"
#include "ennead/attention.h"

namespace ennead {
namespace {

constexpr const char* kOp = "MultiheadAttention";

template <class T>
Refusal check_module(std::int64_t num_heads, const Tensor<T>& in_proj_weight, const Tensor<T>& in_proj_bias,
                     const Tensor<T>& out_proj_weight, const Tensor<T>& out_proj_bias) {
  if (in_proj_weight.empty() || out_proj_weight.empty()) {
    return sentence(kOp, ": expected in_proj_weight and out_proj_weight, got an empty handle");
  }
  if (in_proj_weight.rank() != 2 || in_proj_weight.size(0) % 3 != 0) {
    return sentence(kOp, ": expected in_proj_weight [3 * d_out, d_in], got ", to_string(in_proj_weight.sizes()));
  }
  const std::int64_t d_out = in_proj_weight.size(0) / 3;
  if (num_heads < 1 || d_out % num_heads != 0) {
    return sentence(kOp, ": expected a number of heads that divides d_out ", d_out, ", got ", num_heads);
  }
  if (!(out_proj_weight.sizes() == Dims{d_out, d_out})) {
    return sentence(kOp, ": expected out_proj_weight ", to_string({d_out, d_out}), ", got ",
                    to_string(out_proj_weight.sizes()));
  }
  if (!in_proj_bias.empty() && !(in_proj_bias.sizes() == Dims{3 * d_out})) {
    return sentence(kOp, ": expected in_proj_bias ", to_string({3 * d_out}), ", got ", to_string(in_proj_bias.sizes()));
  }
  if (!out_proj_bias.empty() && !(out_proj_bias.sizes() == Dims{d_out})) {
    return sentence(kOp, ": expected out_proj_bias ", to_string({d_out}), ", got ", to_string(out_proj_bias.sizes()));
  }
  return {};
}

}  // namespace

template <class T>
MultiheadAttention<T>::MultiheadAttention(std::int64_t num_heads, const Tensor<T>& in_proj_weight,
                                          const Tensor<T>& in_proj_bias, const Tensor<T>& out_proj_weight,
                                          const Tensor<T>& out_proj_bias)
    : num_heads_(num_heads) {
  require(check_module(num_heads, in_proj_weight, in_proj_bias, out_proj_weight, out_proj_bias));
  in_proj_ = Linear<T>(in_proj_weight, in_proj_bias);
  out_proj_ = Linear<T>(out_proj_weight, out_proj_bias);
}

template <class T>
Refusal MultiheadAttention<T>::check(const Tensor<T>& x, const Options& options) const {
  const std::int64_t d_in = in_proj_.weight().size(1);
  if (x.empty() || x.rank() != 3 || x.size(2) != d_in) {
    return sentence(kOp, ": expected x [batch, num_tokens, ", d_in, "], got ",
                    x.empty() ? "an empty handle" : to_string(x.sizes()));
  }
  const Tensor<bool>& padding = options.key_padding_block;
  if (!padding.empty() && !(padding.sizes() == Dims{x.size(0), x.size(1)})) {
    return sentence(kOp, ": expected key_padding_block ", to_string({x.size(0), x.size(1)}), ", got ",
                    to_string(padding.sizes()));
  }
  return attention::check_mask(options.attn_mask, attention::ScoreShape{x.size(0), num_heads_, x.size(1), x.size(1)});
}

template <class T>
typename MultiheadAttention<T>::Result MultiheadAttention<T>::operator()(const Tensor<T>& x, const Options& options,
                                                                         Where where) const {
  require(check(x, options));
  const std::int64_t batch = x.size(0), num_tokens = x.size(1);
  const std::int64_t d_out = out_proj_.weight().size(0), head_dim = d_out / num_heads_;

  // One product for Q, K and V: [batch, num_tokens, 3 * d_out] -> 3 x [batch, heads, num_tokens, head_dim]
  Tensor<T> qkv = view(in_proj_(x, where), {batch, num_tokens, 3, num_heads_, head_dim}, where);
  const std::vector<Tensor<T>> parts = unbind(permute(qkv, {2, 0, 3, 1, 4}, where), 0, where);

  AttentionOptions<T> attention;
  attention.is_causal = options.is_causal;
  attention.attn_mask = attention::with_key_padding(options.attn_mask, options.key_padding_block, num_heads_, where);
  const Tensor<T> context_vec = scaled_dot_product_attention(parts[0], parts[1], parts[2], attention, where).output;

  Result result;
  result.output = out_proj_(view(transpose(context_vec, 1, 2, where), {batch, num_tokens, d_out}, where), where);
  if (options.need_weights) {
    result.attn_weights = attention_weights(parts[0], parts[1], attention, options.average_attn_weights, where);
  }
  return result;
}

template class MultiheadAttention<float>;
template class MultiheadAttention<double>;

}  // namespace ennead
