// SPDX-License-Identifier: Apache-2.0
// Idea:         x is read once: one weight [3 * d_out, d_in] makes Q, K and V together.
// Changes from: 2, three projections become one and a split by view.
// Keeps:        one batched product for all heads, the score matrix.
// Materialises: QKV (75.5 MB), context (25.2 MB), scores, scaled scores and weights (3 x 403 MB).
// Matmuls:      1 projection, 1 batched scores, 1 batched mix, 1 output projection: 4.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class CombinedQkv final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.dropout = true, .gradient = true};

  CombinedQkv(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        qkv_(stacked(weights.W_query, weights.W_key, weights.W_value),
             stacked(weights.b_query, weights.b_key, weights.b_value)),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias),
        mask_(causal_mask(weights.W_query.context(), config.is_causal ? config.context_length : 0)) {}

 protected:
  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>&) const override {
    const Config& config = this->config();
    const std::int64_t b = x.size(0);
    const std::int64_t num_tokens = x.size(1);

    // [project] [b, num_tokens, 3 * d_out]
    auto qkv = qkv_(x);

    // [split] [3, b, num_heads, num_tokens, head_dim]
    qkv = permute(view(qkv, {b, num_tokens, 3, config.num_heads, config.head_dim()}), {2, 0, 3, 1, 4});
    const auto parts = unbind(qkv, 0);
    const auto &queries = parts[0], &keys = parts[1], &values = parts[2];

    // [score] [b, num_heads, num_tokens, num_tokens]
    auto attn_scores = matmul(queries, transpose(keys, -2, -1));

    // [mask]
    if (config.is_causal) masked_fill_(attn_scores, top_left(mask_, num_tokens), kMinusInfinity);

    // [softmax]
    auto attn_weights = softmax(attn_scores / std::sqrt(static_cast<double>(keys.size(-1))));
    attn_weights = dropout(attn_weights, {config.dropout, this->training()});

    // [mix] [b, num_tokens, num_heads, head_dim]
    auto context_vec = transpose(matmul(attn_weights, values), 1, 2);

    // [merge] [b, num_tokens, d_out]
    context_vec = view(contiguous(context_vec), {b, num_tokens, config.d_out});
    return {out_proj_(context_vec), {}};
  }

 private:
  Linear<T> qkv_, out_proj_;
  Tensor<bool> mask_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(combined_qkv, CombinedQkv)
