// SPDX-License-Identifier: Apache-2.0
// Idea:         score, mask, softmax and mix are one call that keeps a tile of scores, never all.
// Changes from: 3, four steps become one; keys in the future are not computed at all.
// Keeps:        one projection for Q, K and V, one output projection.
// Materialises: QKV (75.5 MB), context (25.2 MB).
// Matmuls:      1 projection, 1 output projection: 2, and the fused call.
//
// The idea is FlashAttention's: Dao, Fu, Ermon, Rudra and Re, 2022, https://arxiv.org/abs/2205.14135.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class FusedCausal final : public Variant<T> {
 public:
  static constexpr Supports kSupports{};

  FusedCausal(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        qkv_(stacked(weights.W_query, weights.W_key, weights.W_value),
             stacked(weights.b_query, weights.b_key, weights.b_value)),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias) {}

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

    // [score] [mask] [softmax] [mix] [b, num_heads, num_tokens, head_dim]
    auto context_vec = scaled_dot_product_attention<T>(queries, keys, values, {.is_causal = config.is_causal}).output;

    // [merge] [b, num_tokens, d_out]: the call wrote token by token, so this copies nothing
    context_vec = view(transpose(context_vec, 1, 2), {b, num_tokens, config.d_out});
    return {out_proj_(context_vec), {}};
  }

 private:
  Linear<T> qkv_, out_proj_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(fused_causal, FusedCausal)
