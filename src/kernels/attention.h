// SPDX-License-Identifier: Apache-2.0
// Attention: what its kernels take.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ennead/dtype.h"
#include "ennead/view.h"

namespace ennead::kernels {

/// Keys from this one on are in the future of `query`.
constexpr std::int64_t causal_limit(std::int64_t query, std::int64_t causal_offset, std::int64_t num_keys) {
  return std::clamp<std::int64_t>(query + causal_offset + 1, 0, num_keys);
}

/// What a block of a block mask lets be seen: nothing, everything, or what its bits say.
enum class BlockKind : std::uint8_t { empty = 0, full = 1, partial = 2 };

/// A block mask as attention reads it: the (query, key) plane cut into blocks.
struct BlockMaskArgs {
  std::int64_t block_q = 0, block_k = 0;      ///< block sides; 0: no block mask
  std::int64_t batch_stride = 0;              ///< blocks between batches in `kinds`; 0: shared
  std::int64_t head_stride = 0;               ///< blocks between heads in `kinds`; 0: shared
  std::int64_t blocks_per_row = 0;            ///< key blocks in a row of blocks
  const std::uint8_t* kinds = nullptr;        ///< BlockKind of [batch][head][query block][key block]
  const std::int64_t* bit_offsets = nullptr;  ///< as kinds: first word of a partial block in `bits`
  /// A partial block: block_q rows of ceil(block_k / 64) words, bit j of a row set when key j of
  /// the block may be seen.
  const std::uint64_t* bits = nullptr;
};

/// Changes a tile of scores in place, after scale and before masks:
/// scores[i * row_stride + j] belongs to (batch, head, query0 + i, key0 + j).
template <class T>
struct ScoreMod {
  using Function = void (*)(const void* state, Sum<T>* scores, std::int64_t row_stride, std::int64_t batch,
                            std::int64_t head, std::int64_t query0, std::int64_t num_queries, std::int64_t key0,
                            std::int64_t num_keys);
  Function function = nullptr;
  const void* state = nullptr;
};

/// out = softmax(mask(mod(scale * q k^T) + bias)) v, exactly, without the score matrix.
/// Masks are combined by AND. A row with no allowed key gives zeros and lse = -inf. What a mask
/// blocks is never read into a result: NaN and Inf there do not leak. Key head = head /
/// (heads / kv_heads).
template <class T>
struct AttentionArgs {
  View<const T, 4> q;   ///< [batch, heads, num_queries, head_dim]
  View<const T, 4> k;   ///< [batch, kv_heads, num_keys, head_dim]
  View<const T, 4> v;   ///< [batch, kv_heads, num_keys, value_dim]
  View<T, 4> out;       ///< [batch, heads, num_queries, value_dim]
  View<Sum<T>, 3> lse;  ///< [batch, heads, num_queries] natural log; data nullptr: not wanted
  Sum<T> scale = 1;
  bool causal = false;  ///< key <= query + causal_offset
  std::int64_t causal_offset = 0;
  View<const bool, 4> allow;  ///< [batch, heads, num_queries, num_keys] or data nullptr
  View<const T, 4> bias;      ///< as allow; added to the scaled score
  BlockMaskArgs blocks;
  ScoreMod<T> score_mod;
};

}  // namespace ennead::kernels
