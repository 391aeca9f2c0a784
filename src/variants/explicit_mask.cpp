// SPDX-License-Identifier: Apache-2.0
// Idea:         the same call, told by a dense mask what a query may see.
// Changes from: 5, is_causal becomes a tensor that is read for every score. It may hold anything, so
//               every score is computed.
// Keeps:        one projection for Q, K and V, one output projection, no score matrix.
// Materialises: QKV (75.5 MB), context (25.2 MB), and the mask (1 MB), made once.
// Matmuls:      1 projection, 1 output projection: 2, and the fused call.
//
// The original hands the book's buffer, in which true blocks, to a function in which true allows, and
// so sees the future only. AttentionMask::block says which of the two is meant.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class ExplicitMask final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.attn_mask = true};

  ExplicitMask(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        qkv_(stacked(weights.W_query, weights.W_key, weights.W_value),
             stacked(weights.b_query, weights.b_key, weights.b_value)),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias),
        allowed_(make_mask(weights.W_query.context(), config)) {}

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
    auto attn_mask = options.attn_mask;
    const auto own = top_left(allowed_, num_tokens);
    attn_mask.allowed = attn_mask.allowed.empty() ? own : logical_and(attn_mask.allowed, own);
    auto context_vec = scaled_dot_product_attention<T>(queries, keys, values, {.attn_mask = attn_mask}).output;

    // [merge] [b, num_tokens, d_out]
    context_vec = view(transpose(context_vec, 1, 2), {b, num_tokens, config.d_out});
    return {out_proj_(context_vec), {}};
  }

 private:
  // [context_length, context_length], true: this key may be seen
  static Tensor<bool> make_mask(const Context& context, const Config& config) {
    const std::int64_t n = config.context_length;
    if (!config.is_causal) return Tensor<bool>::full(context, {n, n}, true);
    return AttentionMask<T>::block(causal_mask(context, n)).allowed;
  }

  Linear<T> qkv_, out_proj_;
  Tensor<bool> allowed_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(explicit_mask, ExplicitMask)
