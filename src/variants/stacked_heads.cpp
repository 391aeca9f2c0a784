// SPDX-License-Identifier: Apache-2.0
// Idea:         "multi-head" read literally: single-head attentions in a loop, outputs side by side.
// Changes from: nothing, this is the start.
// Keeps:        -
// Materialises: per head Q, K, V (6.3 MB), scores, scaled scores and weights (3 x 33.6 MB).
// Matmuls:      per head 3 projections, scores, mix; then 1 output projection: 12 x 5 + 1.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class StackedHeads final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.dropout = true, .gradient = true};

  StackedHeads(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        W_query_(per_head(weights.W_query, weights.b_query, config.num_heads)),
        W_key_(per_head(weights.W_key, weights.b_key, config.num_heads)),
        W_value_(per_head(weights.W_value, weights.b_value, config.num_heads)),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias),
        mask_(causal_mask(weights.W_query.context(), config.is_causal ? config.context_length : 0)) {}

 protected:
  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>&) const override {
    const Config& config = this->config();
    const std::int64_t num_tokens = x.size(1);

    std::vector<Tensor<T>> context_vecs;
    for (std::int64_t head = 0; head < config.num_heads; ++head) {
      // [project] [b, num_tokens, head_dim]
      auto keys = W_key_[head](x);
      auto queries = W_query_[head](x);
      auto values = W_value_[head](x);

      // [score] [b, num_tokens, num_tokens]
      auto attn_scores = matmul(queries, transpose(keys, -2, -1));

      // [mask]
      if (config.is_causal) masked_fill_(attn_scores, top_left(mask_, num_tokens), kMinusInfinity);

      // [softmax]
      auto attn_weights = softmax(attn_scores / std::sqrt(static_cast<double>(keys.size(-1))));
      attn_weights = dropout(attn_weights, {config.dropout, this->training(), head});

      // [mix] [b, num_tokens, head_dim]
      context_vecs.push_back(matmul(attn_weights, values));
    }

    // [merge] [b, num_tokens, d_out]
    auto context_vec = cat(std::span<const Tensor<T>>(context_vecs), -1);
    return {out_proj_(context_vec), {}};
  }

 private:
  std::vector<Linear<T>> W_query_, W_key_, W_value_;
  Linear<T> out_proj_;
  Tensor<bool> mask_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(stacked_heads, StackedHeads)
