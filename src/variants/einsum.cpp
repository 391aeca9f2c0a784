// SPDX-License-Identifier: Apache-2.0
// Idea:         every product is a sum written as its indices; weights stand as [d_in, d_out].
// Changes from: 2, matmul and linear become einsum.
// Keeps:        the order of steps, the score matrix.
// Materialises: Q, K, V and context (4 x 25.2 MB), scores, scaled scores and weights (3 x 403 MB).
// Matmuls:      3 projections, 1 batched scores, 1 batched mix, 1 output projection: 6.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class Einsum final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.dropout = true, .gradient = true};

  Einsum(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        W_query_(transposed(weights.W_query)),
        W_key_(transposed(weights.W_key)),
        W_value_(transposed(weights.W_value)),
        out_weight_(transposed(weights.out_proj_weight)),
        b_query_(weights.b_query),
        b_key_(weights.b_key),
        b_value_(weights.b_value),
        out_bias_(weights.out_proj_bias),
        mask_(causal_mask(weights.W_query.context(), config.is_causal ? config.context_length : 0)) {}

 protected:
  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>&) const override {
    const Config& config = this->config();
    const std::int64_t b = x.size(0);
    const std::int64_t num_tokens = x.size(1);

    // [project] [b, num_tokens, d_out]
    auto keys = biased(einsum("bnd,do->bno", x, W_key_), b_key_);
    auto queries = biased(einsum("bnd,do->bno", x, W_query_), b_query_);
    auto values = biased(einsum("bnd,do->bno", x, W_value_), b_value_);

    // [split] [b, num_heads, num_tokens, head_dim]
    const Dims heads{b, num_tokens, config.num_heads, config.head_dim()};
    keys = transpose(view(keys, heads), 1, 2);
    queries = transpose(view(queries, heads), 1, 2);
    values = transpose(view(values, heads), 1, 2);

    // [score] [b, num_heads, num_tokens, num_tokens]
    auto attn_scores = einsum("bhnd,bhmd->bhnm", queries, keys);

    // [mask]
    if (config.is_causal) masked_fill_(attn_scores, top_left(mask_, num_tokens), kMinusInfinity);

    // [softmax] the raw scores are freed: one score matrix less in memory than in 2
    attn_scores = attn_scores / std::sqrt(static_cast<double>(keys.size(-1)));
    auto attn_weights = softmax(attn_scores);
    attn_weights = dropout(attn_weights, {config.dropout, this->training()});

    // [mix] [b, num_tokens, num_heads, head_dim]
    auto context_vec = transpose(einsum("bhnm,bhmd->bhnd", attn_weights, values), 1, 2);

    // [merge] [b, num_tokens, d_out]
    context_vec = view(contiguous(context_vec), {b, num_tokens, config.d_out});
    return {biased(einsum("bno,op->bnp", context_vec, out_weight_), out_bias_), {}};
  }

 private:
  static Tensor<T> transposed(const Tensor<T>& weight) { return contiguous(transpose(weight, 0, 1)); }
  static Tensor<T> biased(const Tensor<T>& x, const Tensor<T>& bias) { return bias.empty() ? x : add(x, bias); }

  Tensor<T> W_query_, W_key_, W_value_, out_weight_;
  Tensor<T> b_query_, b_key_, b_value_, out_bias_;
  Tensor<bool> mask_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(einsum, Einsum)
