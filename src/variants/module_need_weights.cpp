// SPDX-License-Identifier: Apache-2.0
// Idea:         nn.MultiheadAttention, called as it is by default: it also returns the weights.
// Changes from: 8, need_weights stays true, so all scores are computed a second time and averaged
//               over the heads.
// Keeps:        the packed in-projection (the original projects twice: outside and inside the module),
//               and the output, bit by bit.
// Materialises: QKV (75.5 MB), context (25.2 MB), averaged weights (33.6 MB).
// Matmuls:      1 projection, 1 output projection: 2, the fused call, and the scores once more.
#include "attention/mask.h"
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class ModuleNeedWeights final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.attn_mask = true, .key_padding_mask = true, .need_weights = true};

  ModuleNeedWeights(int number, const Config& config, const Weights<T>& weights)
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
    const auto output = out_proj_(context_vec);
    if (!options.need_weights) return {output, {}};

    // The call above kept no weights, so asking for them computes all scores a second time.
    return {output, attention_weights(queries, keys, masks, options.average_attn_weights)};
  }

 private:
  Linear<T> qkv_, out_proj_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(module_need_weights, ModuleNeedWeights)
