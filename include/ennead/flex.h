// SPDX-License-Identifier: Apache-2.0
// FlexAttention: the caller's own rules, mask_mod(b, h, q, k) -> bool and score_mod(score, b, h, q, k).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ennead/attention.h"
#include "ennead/export.h"
#include "ennead/function_ref.h"

ENNEAD_API_BEGIN
namespace ennead {

/// What the callables get for b, h, q and k. 32 bits, because baseline instruction sets turn vectors
/// of them, and not of wider ones, into floating point; longer sequences are refused.
using FlexIndex = std::int32_t;

// -- block masks ------------------------------------------------------------------------------

/// A mask_mod, evaluated: the (query, key) plane in square blocks that are empty (skipped), full
/// (computed without a mask) or partial (one bit a pair). Immutable; copies share it.
class BlockMask {
 public:
  enum class Kind : std::uint8_t { empty = 0, full = 1, partial = 2 };

  /// No mask: every key may be seen.
  BlockMask() = default;
  bool empty() const { return data_ == nullptr; }

  std::int64_t batch() const { return data_->batch; }
  std::int64_t heads() const { return data_->heads; }
  std::int64_t num_queries() const { return num_queries_; }
  std::int64_t num_keys() const { return num_keys_; }
  std::int64_t block_size() const { return data_->block_size; }
  std::int64_t query_blocks() const { return blocks_in(num_queries()); }
  std::int64_t key_blocks() const { return blocks_in(num_keys()); }

  /// The same rule for the first `num_queries` queries and `num_keys` keys, for a shorter sequence than
  /// the mask was made for. Shares the blocks: nothing is evaluated or copied. Throws Error where the
  /// mask is empty or smaller.
  BlockMask top_left(std::int64_t num_queries, std::int64_t num_keys) const;

  /// A block that top_left() cuts keeps the kind of the whole block.
  Kind kind(std::int64_t b, std::int64_t h, std::int64_t query_block, std::int64_t key_block) const {
    return static_cast<Kind>(data_->kinds[static_cast<std::size_t>(index(b, h, query_block, key_block))]);
  }
  bool allowed(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;
  /// Pairs (b, h, q, k) that may see each other.
  std::int64_t allowed_pairs() const;

  /// The blocks as the kernels read them, before any top_left().
  struct Data {
    std::int64_t batch = 1, heads = 1, num_queries = 0, num_keys = 0, block_size = 0;
    std::vector<std::uint8_t> kinds;        ///< Kind of [batch][heads][query_block][key_block]
    std::vector<std::int64_t> bit_offsets;  ///< as kinds: where a partial block starts in bits
    std::vector<std::uint64_t> bits;        ///< block_size rows of words_per_row() words a block
    std::int64_t words_per_row() const { return (block_size + 63) / 64; }
    std::int64_t blocks_per_row() const { return (num_keys + block_size - 1) / block_size; }
    std::int64_t blocks_per_head() const { return (num_queries + block_size - 1) / block_size * blocks_per_row(); }
  };
  const Data& data() const { return *data_; }

  /// Sets bit j of `words` when (b, h, q, key0 + j) may be seen, for j in [0, num_keys).
  using RowFunction = FunctionRef<void(FlexIndex b, FlexIndex h, FlexIndex q, FlexIndex key0, FlexIndex num_keys,
                                       std::uint64_t* words)>;
  static BlockMask build(const Context& context, Data sizes, RowFunction row);

 private:
  std::int64_t blocks_in(std::int64_t length) const { return (length + block_size() - 1) / block_size(); }
  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t query_block, std::int64_t key_block) const {
    return (b * heads() + h) * data_->blocks_per_head() + query_block * data_->blocks_per_row() + key_block;
  }

  std::shared_ptr<const Data> data_;
  std::int64_t num_queries_ = 0, num_keys_ = 0;
};

/// Evaluates `mask_mod` once for all later calls, on the threads of `context`.
/// @param mask_mod    callable (FlexIndex b, h, q, k) -> bool; true: key k may be seen. It must not
///                    throw and runs on several threads at once.
/// @param batch       1 when the mask does not depend on b, else the batch size
/// @param heads       1 when the mask does not depend on h, else the number of query heads
/// @param block_size  side of a block, at least 1
template <class MaskMod>
BlockMask create_block_mask(const Context& context, const MaskMod& mask_mod, std::int64_t batch, std::int64_t heads,
                            std::int64_t num_queries, std::int64_t num_keys, std::int64_t block_size = 128) {
  const auto row = [&mask_mod](FlexIndex b, FlexIndex h, FlexIndex q, FlexIndex key0, FlexIndex num_row_keys,
                               std::uint64_t* words) {
    for (FlexIndex first = 0; first < num_row_keys; first += 64) {
      const FlexIndex count = std::min<FlexIndex>(64, num_row_keys - first);
      std::uint64_t word = 0;
      for (FlexIndex j = 0; j < count; ++j) {
        const bool seen = mask_mod(b, h, q, key0 + first + j);
        word |= std::uint64_t{seen} << j;
      }
      *words++ = word;
    }
  };
  BlockMask::Data sizes;
  sizes.batch = batch;
  sizes.heads = heads;
  sizes.num_queries = num_queries;
  sizes.num_keys = num_keys;
  sizes.block_size = block_size;
  return BlockMask::build(context, std::move(sizes), row);
}

/// A token sees itself and what came before.
struct CausalMask {
  bool operator()(FlexIndex, FlexIndex, FlexIndex q, FlexIndex k) const { return k <= q; }
};

/// A token sees itself and what came before, `window` keys in all.
struct SlidingWindowMask {
  FlexIndex window;
  bool operator()(FlexIndex, FlexIndex, FlexIndex q, FlexIndex k) const { return k <= q && q - k < window; }
};

// -- scores -----------------------------------------------------------------------------------

/// A score_mod as the kernels call it: one function for a tile of scores, so that the caller's lambda
/// is inlined into a loop the compiler can vectorise. Borrows the lambda.
template <class T>
struct ScoreModTile {
  using Function = void (*)(const void* state, Sum<T>* scores, std::int64_t row_stride, std::int64_t batch,
                            std::int64_t head, std::int64_t query0, std::int64_t num_queries, std::int64_t key0,
                            std::int64_t num_keys);
  Function function = nullptr;
  const void* state = nullptr;

  template <class ScoreModT>
  static ScoreModTile of(const ScoreModT& score_mod) {
    return {&apply<ScoreModT>, &score_mod};
  }

 private:
  template <class ScoreModT>
  static void apply(const void* state, Sum<T>* scores, std::int64_t row_stride, std::int64_t batch, std::int64_t head,
                    std::int64_t query0, std::int64_t num_queries, std::int64_t key0, std::int64_t num_keys) {
    // A local copy cannot alias the scores, so what the lambda captured stays in registers.
    using State = std::conditional_t<std::is_trivially_copyable_v<ScoreModT>, const ScoreModT, const ScoreModT&>;
    State score_mod = *static_cast<const ScoreModT*>(state);
    const auto b = static_cast<FlexIndex>(batch), h = static_cast<FlexIndex>(head);
    const auto k0 = static_cast<FlexIndex>(key0), n = static_cast<FlexIndex>(num_keys);
    for (std::int64_t i = 0; i < num_queries; ++i) {
      const auto q = static_cast<FlexIndex>(query0 + i);
      Sum<T>* row = scores + i * row_stride;
      for (FlexIndex j = 0; j < n; ++j) row[j] = static_cast<Sum<T>>(score_mod(row[j], b, h, q, k0 + j));
    }
  }
};

/// For calls without a score_mod.
struct NoScoreMod {};
inline constexpr NoScoreMod no_score_mod{};

struct FlexOptions {
  std::optional<double> scale = {};  ///< default 1 / sqrt(head_dim)
  bool enable_gqa = false;           ///< query head h uses key head h / (heads / kv_heads)
  bool return_lse = false;
};

template <class T>
ENNEAD_API Refusal check_flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                                        const BlockMask& block_mask, const FlexOptions& options);

/// As below, for a score_mod that is already a tile function (function nullptr: none).
template <class T>
ENNEAD_API AttentionResult<T> flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                                             const ScoreModTile<T>& score_mod, const BlockMask& block_mask,
                                             const FlexOptions& options = {}, Where where = Where::current());

/// softmax(mask(score_mod(scale * query key^T))) value; empty blocks cost nothing.
/// @param query [batch, heads, num_queries, head_dim]
/// @param key   [batch, kv_heads, num_keys, head_dim]
/// @param value [batch, kv_heads, num_keys, value_dim]
/// @param score_mod  callable (Sum<T> score, FlexIndex b, h, q, k) -> Sum<T>, best a generic lambda. It sees
///                   every score of a block that is not empty, must not throw and runs on several
///                   threads at once; what it captures must outlive the call.
/// @param block_mask made for these numbers of queries and keys, or BlockMask{}
template <class T, class ScoreModT>
AttentionResult<T> flex_attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                                  const ScoreModT& score_mod, const BlockMask& block_mask,
                                  const FlexOptions& options = {}, Where where = Where::current()) {
  if constexpr (std::is_same_v<ScoreModT, NoScoreMod>) {
    return flex_attention(query, key, value, ScoreModTile<T>{}, block_mask, options, where);
  } else {
    return flex_attention(query, key, value, ScoreModTile<T>::of(score_mod), block_mask, options, where);
  }
}

}  // namespace ennead
ENNEAD_API_END
