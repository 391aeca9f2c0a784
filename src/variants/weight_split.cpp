// SPDX-License-Identifier: Apache-2.0
// Idea:         one big product each for Q, K and V; heads are a view of the result, not a loop.
// Changes from: 1, the loop over heads becomes a batch axis: [split] makes it, [merge] takes it back.
// Keeps:        the order of steps, the score matrix.
// Materialises: Q, K, V and context (4 x 25.2 MB), scores, scaled scores and weights (3 x 403 MB).
// Matmuls:      3 projections, 1 batched scores, 1 batched mix, 1 output projection: 6.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class WeightSplit final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.dropout = true, .gradient = true};

  WeightSplit(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        W_query_(weights.W_query, weights.b_query),
        W_key_(weights.W_key, weights.b_key),
        W_value_(weights.W_value, weights.b_value),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias),
        mask_(causal_mask(weights.W_query.context(), config.is_causal ? config.context_length : 0)) {}

 protected:
  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>&) const override {
    const Config& config = this->config();
    const std::int64_t b = x.size(0);
    const std::int64_t num_tokens = x.size(1);

    // [project] [b, num_tokens, d_out]
    auto keys = W_key_(x);
    auto queries = W_query_(x);
    auto values = W_value_(x);

    // [split] [b, num_heads, num_tokens, head_dim]: the heads become a batch axis
    const Dims heads{b, num_tokens, config.num_heads, config.head_dim()};
    keys = transpose(view(keys, heads), 1, 2);
    queries = transpose(view(queries, heads), 1, 2);
    values = transpose(view(values, heads), 1, 2);

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
  Linear<T> W_query_, W_key_, W_value_, out_proj_;
  Tensor<bool> mask_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(weight_split, WeightSplit)
