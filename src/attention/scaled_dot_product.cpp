// SPDX-License-Identifier: Apache-2.0
#include "attention/arguments.h"
#include "attention/fused.h"
#include "ennead/attention.h"

namespace ennead {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

}  // namespace

template <class T>
Refusal check_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                        const AttentionOptions<T>& options) {
  if (value.empty()) return sentence(kOp, ": expected a value, got an empty handle");
  if (Refusal refusal = attention::check_shapes(kOp, query, key, value, options.enable_gqa); !refusal.ok())
    return refusal;
  if (Refusal refusal = attention::check_scale<T>(kOp, options.scale); !refusal.ok()) return refusal;
  if (Refusal refusal = attention::check_mask(options.attn_mask, attention::score_shape(query, key)); !refusal.ok()) {
    return refusal;
  }
  return attention::check_no_gradient(kOp, query.context(), {&query, &key, &value, &options.attn_mask.bias});
}

template <class T>
AttentionResult<T> scaled_dot_product_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                                                const AttentionOptions<T>& options, Where where) {
  require(check_attention(query, key, value, options));
  base::Launch launch(query.context(), kOp, where);
  if (!options.attn_mask.allowed.empty()) launch.reads(options.attn_mask.allowed);
  if (!options.attn_mask.bias.empty()) launch.reads(options.attn_mask.bias);
  const kernels::AttentionArgs<T> args = attention::make_arguments(query, key, options);
  return attention::run_fused(launch, query, key, value, args, options.return_lse,
                              [&] { return attention::visible_pairs(args); });
}

#define ENNEAD_INSTANTIATE(T)                                                                                         \
  template Refusal check_attention(const Tensor<T>&, const Tensor<T>&, const Tensor<T>&, const AttentionOptions<T>&); \
  template AttentionResult<T> scaled_dot_product_attention(const Tensor<T>&, const Tensor<T>&, const Tensor<T>&,      \
                                                           const AttentionOptions<T>&, Where);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
