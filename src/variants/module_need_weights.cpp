// SPDX-License-Identifier: Apache-2.0
// Idea:         the ready-made module, called as it is by default: it also returns the weights.
// Changes from: 8, need_weights stays true, so all scores are computed a second time and averaged
//               over the heads.
// Keeps:        the packed in-projection (the original projects twice: outside and inside the module),
//               and the output, bit by bit.
// Materialises: QKV (75.5 MB), context (25.2 MB), averaged weights (33.6 MB).
// Matmuls:      1 projection, 1 output projection: 2, the fused call, and the scores once more.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class ModuleNeedWeights final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.attn_mask = true, .key_padding_mask = true, .need_weights = true};

  ModuleNeedWeights(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        multihead_attn_(config.num_heads, stacked(weights.W_query, weights.W_key, weights.W_value),
                        stacked(weights.b_query, weights.b_key, weights.b_value), weights.out_proj_weight,
                        weights.out_proj_bias) {}

 protected:
  Tensor<T> forward(const Tensor<T>& x) override {
    CallOptions<T> by_default;
    by_default.need_weights = true;
    return forward(x, by_default).output;
  }

  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>& options) override {
    // [project] [split] [score] [mask] [softmax] [mix] [merge]
    auto [attn_output, attn_weights] = multihead_attn_(x, {.is_causal = this->config_.is_causal,
                                                           .attn_mask = options.attn_mask,
                                                           .key_padding_block = options.key_padding_block,
                                                           .need_weights = options.need_weights,
                                                           .average_attn_weights = options.average_attn_weights});
    return {attn_output, attn_weights};
  }

 private:
  MultiheadAttention<T> multihead_attn_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(module_need_weights, ModuleNeedWeights)
