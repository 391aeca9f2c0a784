// SPDX-License-Identifier: Apache-2.0
// Idea:         "multi-head" read literally: single-head attentions in a loop, outputs side by side.
// Changes from: nothing, this is the start.
// Keeps:        -
// Materialises: per head Q, K, V (6.3 MB), scores, scaled scores and weights (3 x 33.6 MB).
// Matmuls:      per head 3 projections, scores, mix; then 1 output projection: 12 x 5 + 1.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

// One head with its own W_query, W_key and W_value, as the book's CausalAttention.
template <class T>
class CausalAttention {
 public:
  CausalAttention(const Config& config, const Weights<T>& weights, std::int64_t head)
      : W_query_(head_rows(config, weights.W_query, head), head_rows(config, weights.b_query, head)),
        W_key_(head_rows(config, weights.W_key, head), head_rows(config, weights.b_key, head)),
        W_value_(head_rows(config, weights.W_value, head), head_rows(config, weights.b_value, head)),
        head_(head) {}

  Tensor<T> operator()(const Tensor<T>& x, const Config& config, const Tensor<bool>& mask, bool training) const {
    const std::int64_t num_tokens = x.size(1);

    // [project] [batch, num_tokens, head_dim]
    const auto keys = W_key_(x);
    const auto queries = W_query_(x);
    const auto values = W_value_(x);

    // [score] [batch, num_tokens, num_tokens]
    auto attn_scores = matmul(queries, transpose(keys, 1, 2));

    // [mask]
    if (config.is_causal) masked_fill_(attn_scores, top_left(mask, num_tokens), kMinusInfinity);

    // [softmax]
    auto attn_weights = softmax(attn_scores / std::sqrt(static_cast<double>(keys.size(-1))));
    attn_weights = dropout(attn_weights, {config.dropout, training, head_});

    // [mix] [batch, num_tokens, head_dim]
    return matmul(attn_weights, values);
  }

 private:
  static Tensor<T> head_rows(const Config& config, const Tensor<T>& weight, std::int64_t head) {
    return rows(weight, head * config.head_dim(), config.head_dim());
  }

  Linear<T> W_query_, W_key_, W_value_;
  std::int64_t head_;
};

template <class T>
class StackedHeads final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.dropout = true, .gradient = true};

  StackedHeads(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias),
        mask_(causal_mask(weights.W_query.context(), config.is_causal ? config.context_length : 0)) {
    for (std::int64_t head = 0; head < config.num_heads; ++head) heads_.emplace_back(config, weights, head);
  }

 protected:
  Tensor<T> forward(const Tensor<T>& x) override {
    std::vector<Tensor<T>> head_outputs;
    for (const auto& head : heads_) head_outputs.push_back(head(x, this->config_, mask_, this->training()));

    // [merge] [batch, num_tokens, d_out]
    const auto context_vec = cat(std::span<const Tensor<T>>(head_outputs), -1);
    return out_proj_(context_vec);
  }

 private:
  std::vector<CausalAttention<T>> heads_;
  Linear<T> out_proj_;
  Tensor<bool> mask_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(stacked_heads, StackedHeads)
