// SPDX-License-Identifier: Apache-2.0
#include "ennead/flex.h"

#include <limits>

#include "attention/arguments.h"
#include "attention/fused.h"

namespace ennead {
namespace {

constexpr const char* kOp = "flex_attention";

Refusal check_fits(const BlockMask& mask, const attention::ScoreShape& shape) {
  if (mask.empty()) return {};
  if (mask.num_queries() != shape.num_queries || mask.num_keys() != shape.num_keys) {
    return sentence(kOp, ": expected a block mask for ", shape.num_queries, " queries and ", shape.num_keys,
                    " keys, got one for ", mask.num_queries(), " and ", mask.num_keys());
  }
  const auto fits = [](std::int64_t size, std::int64_t expected) { return size == expected || size == 1; };
  if (!fits(mask.batch(), shape.batch) || !fits(mask.heads(), shape.heads)) {
    return sentence(kOp, ": expected a block mask for batch ", shape.batch, " and ", shape.heads,
                    " heads, each or 1, got one for ", mask.batch(), " and ", mask.heads());
  }
  return {};
}

// The kernels read the kinds as they lie.
constexpr bool same(BlockMask::Kind public_kind, kernels::BlockKind kind) {
  return static_cast<int>(public_kind) == static_cast<int>(kind);
}
static_assert(same(BlockMask::Kind::empty, kernels::BlockKind::empty) &&
              same(BlockMask::Kind::full, kernels::BlockKind::full) &&
              same(BlockMask::Kind::partial, kernels::BlockKind::partial));

kernels::BlockMaskArgs as_arguments(const BlockMask& mask) {
  if (mask.empty()) return {};
  const BlockMask::Data& data = mask.data();
  const std::int64_t blocks_per_head = data.blocks_per_head();
  kernels::BlockMaskArgs blocks;
  blocks.block_q = blocks.block_k = data.block_size;
  blocks.head_stride = data.heads == 1 ? 0 : blocks_per_head;
  blocks.batch_stride = data.batch == 1 ? 0 : data.heads * blocks_per_head;
  blocks.blocks_per_row = data.blocks_per_row();
  blocks.kinds = data.kinds.data();
  blocks.bit_offsets = data.bit_offsets.data();
  blocks.bits = data.bits.data();
  return blocks;
}

double visible_pairs(const BlockMask& mask, const attention::ScoreShape& shape) {
  const auto items = static_cast<double>(shape.batch * shape.heads);
  if (mask.empty()) return items * static_cast<double>(shape.num_queries * shape.num_keys);
  return static_cast<double>(mask.allowed_pairs()) * items / static_cast<double>(mask.batch() * mask.heads());
}

}  // namespace

template <class T>
Refusal check_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                             const BlockMask& block_mask, const FlexOptions& options) {
  if (value.empty()) return sentence(kOp, ": expected a value, got an empty handle");
  if (Refusal refusal = attention::check_shapes(kOp, query, key, value, options.enable_gqa); !refusal.ok())
    return refusal;
  if (Refusal refusal = attention::check_scale<T>(kOp, options.scale); !refusal.ok()) return refusal;
  const attention::ScoreShape shape = attention::score_shape(query, key);
  constexpr std::int64_t kMax = std::numeric_limits<FlexIndex>::max();
  if (shape.batch > kMax || shape.heads > kMax || shape.num_queries > kMax || shape.num_keys > kMax) {
    return sentence(kOp, ": expected sizes up to ", kMax, " (a score_mod gets 32-bit indices), got query ",
                    to_string(query.sizes()), " and key ", to_string(key.sizes()));
  }
  if (Refusal refusal = check_fits(block_mask, shape); !refusal.ok()) return refusal;
  return attention::check_no_gradient(kOp, query.context(), {&query, &key, &value});
}

template <class T>
AttentionResult<T> flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                                  const ScoreModTile<T>& score_mod, const BlockMask& block_mask,
                                  const FlexOptions& options, Where where) {
  require(check_flex_attention(query, key, value, block_mask, options));
  base::Launch launch(query.context(), kOp, where);
  AttentionOptions<T> attention_options;
  attention_options.scale = options.scale;
  kernels::AttentionArgs<T> args = attention::make_arguments(query, key, attention_options);
  args.blocks = as_arguments(block_mask);
  args.score_mod = {score_mod.function, score_mod.state};
  return attention::run_fused(launch, query, key, value, args, options.return_lse,
                              [&] { return visible_pairs(block_mask, attention::score_shape(query, key)); });
}

#define ENNEAD_INSTANTIATE(T)                                                                                   \
  template Refusal check_flex_attention(const Tensor<T>&, const Tensor<T>&, const Tensor<T>&, const BlockMask&, \
                                        const FlexOptions&);                                                    \
  template AttentionResult<T> flex_attention(const Tensor<T>&, const Tensor<T>&, const Tensor<T>&,              \
                                             const ScoreModTile<T>&, const BlockMask&, const FlexOptions&, Where);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
