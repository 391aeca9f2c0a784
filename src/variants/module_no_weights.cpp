// SPDX-License-Identifier: Apache-2.0
// Idea:         nn.MultiheadAttention, written out: a call may bring masks, and nobody asks for the weights.
// Changes from: 5, the call's mask and the padding of its keys join is_causal.
// Keeps:        one packed in-projection (the original projects twice: outside and inside the module), the
//               fused call.
// Materialises: QKV (75.5 MB), context (25.2 MB).
// Matmuls:      1 projection, 1 output projection: 2, and the fused call.
//
// MultiheadAttention<T> (ennead/attention.h) is these lines as a class; a test holds the two to the same bits.
#include "attention/mask.h"
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class ModuleNoWeights final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.attn_mask = true, .key_padding_mask = true};

  ModuleNoWeights(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        qkv_(stacked(weights.W_query, weights.W_key, weights.W_value),
             stacked(weights.b_query, weights.b_key, weights.b_value)),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias) {}

 protected:
  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>& options) const override {
    const Config& config = this->config();
    const std::int64_t b = x.size(0);
    const std::int64_t num_tokens = x.size(1);

    // [project] [b, num_tokens, 3 * d_out]
    auto qkv = qkv_(x);

    // [split] [3, b, num_heads, num_tokens, head_dim]
    qkv = permute(view(qkv, {b, num_tokens, 3, config.num_heads, config.head_dim()}), {2, 0, 3, 1, 4});
    const auto parts = unbind(qkv, 0);
    const auto &queries = parts[0], &keys = parts[1], &values = parts[2];

    // [score] [mask] [softmax] [mix] [b, num_heads, num_tokens, head_dim]
    const AttentionOptions<T> masks{
        .attn_mask = attention::with_key_padding(options.attn_mask, options.key_padding_block, config.num_heads),
        .is_causal = config.is_causal};
    auto context_vec = scaled_dot_product_attention(queries, keys, values, masks).output;

    // [merge] [b, num_tokens, d_out]
    context_vec = view(transpose(context_vec, 1, 2), {b, num_tokens, config.d_out});
    return {out_proj_(context_vec), {}};
  }

 private:
  Linear<T> qkv_, out_proj_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(module_no_weights, ModuleNoWeights)
