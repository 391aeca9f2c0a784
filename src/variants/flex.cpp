// SPDX-License-Identifier: Apache-2.0
// Idea:         the caller writes the rule of the mask as code; it is evaluated once, into blocks.
// Changes from: 5, is_causal becomes a mask_mod and a block mask: empty blocks cost nothing, full ones
//               need no mask, the few on the diagonal have a bit for each score.
// Keeps:        one projection for Q, K and V, one output projection, no score matrix.
// Materialises: QKV (75.5 MB), context (25.2 MB), and the block mask (17 kB), made once.
// Matmuls:      1 projection, 1 output projection: 2, and the fused call.
//
// The original builds the block mask inside the timed call. Here the mask is made once, for the whole
// context length, and a shorter call uses its upper left part. The idea is FlexAttention's: Dong, Feng,
// Guessous, Liang and He, 2024, https://arxiv.org/abs/2412.05496.
#include "ennead/flex.h"

#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class Flex final : public Variant<T> {
 public:
  static constexpr Supports kSupports{};

  Flex(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        qkv_(stacked(weights.W_query, weights.W_key, weights.W_value),
             stacked(weights.b_query, weights.b_key, weights.b_value)),
        out_proj_(weights.out_proj_weight, weights.out_proj_bias),
        block_mask_(make_block_mask(weights.W_query.context(), config)) {}

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
    const auto block_mask = block_mask_.top_left(num_tokens, num_tokens);
    auto context_vec = flex_attention(queries, keys, values, no_score_mod, block_mask).output;

    // [merge] [b, num_tokens, d_out]
    context_vec = view(transpose(context_vec, 1, 2), {b, num_tokens, config.d_out});
    return {out_proj_(context_vec), {}};
  }

 private:
  // [context_length, context_length]
  static BlockMask make_block_mask(const Context& context, const Config& config) {
    const auto mask_mod = [is_causal = config.is_causal](auto, auto, auto q, auto k) { return !is_causal || k <= q; };
    return create_block_mask(context, mask_mod, 1, 1, config.context_length, config.context_length);
  }

  Linear<T> qkv_, out_proj_;
  BlockMask block_mask_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(flex, Flex)
