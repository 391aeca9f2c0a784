// SPDX-License-Identifier: Apache-2.0
// Idea:         the ready-made module, told that nobody wants the weights.
// Changes from: 5, its lines move into nn.MultiheadAttention, which takes masks as options of the call.
// Keeps:        one projection (the original projects twice: outside and inside the module), the fused
//               call.
// Materialises: QKV (75.5 MB), context (25.2 MB).
// Matmuls:      1 projection, 1 output projection: 2, and the fused call.
#include "variants/variant.h"

namespace ennead::nine {
namespace {

template <class T>
class ModuleNoWeights final : public Variant<T> {
 public:
  static constexpr Supports kSupports{.attn_mask = true, .key_padding_mask = true};

  ModuleNoWeights(int number, const Config& config, const Weights<T>& weights)
      : Variant<T>(number, config),
        multihead_attn_(config.num_heads, stacked(weights.W_query, weights.W_key, weights.W_value),
                        stacked(weights.b_query, weights.b_key, weights.b_value), weights.out_proj_weight,
                        weights.out_proj_bias) {}

 protected:
  Tensor<T> forward(const Tensor<T>& x) override { return forward(x, {}).output; }

  CallResult<T> forward(const Tensor<T>& x, const CallOptions<T>& options) override {
    // [project] [split] [score] [mask] [softmax] [mix] [merge]
    auto attn_output = multihead_attn_(x, {.is_causal = this->config_.is_causal,
                                           .attn_mask = options.attn_mask,
                                           .key_padding_block = options.key_padding_block,
                                           .need_weights = false})
                           .output;
    return {attn_output, {}};
  }

 private:
  MultiheadAttention<T> multihead_attn_;
};

}  // namespace
}  // namespace ennead::nine

ENNEAD_VARIANT_CLASS(module_no_weights, ModuleNoWeights)
