// SPDX-License-Identifier: Apache-2.0
// Which keys a row may see: causal limit, block mask and dense mask, all folded into one word of
// bits per row and kWordKeys keys.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_ATTENTION_MASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_ATTENTION_MASKS_INL_H_
#undef ENNEAD_KERNELS_SHARED_ATTENTION_MASKS_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_ATTENTION_MASKS_INL_H_
#endif
#include "kernels/shared/attention/geometry-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// What the keys of a word are to a strip of queries.
enum class WordKind : std::uint8_t {
  skipped,  ///< no row sees any of it: not computed
  full,     ///< every row sees all of it
  masked    ///< some rows see some of it
};

/// The masks of one (batch, head).
template <class T>
struct HeadMask {
  const AttentionArgs<T>* args;
  std::int64_t num_keys, batch, head;

  bool is_dense() const { return args->allow.data != nullptr; }
  bool has_blocks() const { return args->blocks.block_q != 0; }
  /// Scores change after the product: they are no longer bounded by the norms of q and k.
  bool changes_scores() const { return args->score_mod.function != nullptr || args->bias.data != nullptr; }

  /// Keys at or beyond the limit are not seen by `query`. It never falls as queries go on.
  std::int64_t limit(std::int64_t query) const {
    return args->causal ? causal_limit(query, args->causal_offset, num_keys) : num_keys;
  }

  std::int64_t block_index(std::int64_t block_row, std::int64_t block_column) const {
    const BlockMaskArgs& blocks = args->blocks;
    return batch * blocks.batch_stride + head * blocks.head_stride + block_row * blocks.blocks_per_row + block_column;
  }

  /// The kind shared by all blocks that the rows and keys touch; partial when they differ.
  BlockKind block_kind(std::int64_t query, std::int64_t rows, std::int64_t key, std::int64_t keys) const {
    const BlockMaskArgs& blocks = args->blocks;
    const std::int64_t last_row = (query + rows - 1) / blocks.block_q, last_column = (key + keys - 1) / blocks.block_k;
    const std::uint8_t first = blocks.kinds[block_index(query / blocks.block_q, key / blocks.block_k)];
    for (std::int64_t row = query / blocks.block_q; row <= last_row; ++row) {
      for (std::int64_t column = key / blocks.block_k; column <= last_column; ++column) {
        if (blocks.kinds[block_index(row, column)] != first) return BlockKind::partial;
      }
    }
    return static_cast<BlockKind>(first);
  }

  /// Keys [key, key + count) of `query` that the block mask allows, as bits.
  std::uint64_t block_bits(std::int64_t query, std::int64_t key, std::int64_t count) const {
    const BlockMaskArgs& blocks = args->blocks;
    std::uint64_t bits = 0;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t column = (key + done) / blocks.block_k, offset = (key + done) % blocks.block_k;
      const std::int64_t length = std::min(count - done, blocks.block_k - offset);
      const std::int64_t index = block_index(query / blocks.block_q, column);
      std::uint64_t part = 0;
      if (static_cast<BlockKind>(blocks.kinds[index]) == BlockKind::full) {
        part = low_bits(length);
      } else if (static_cast<BlockKind>(blocks.kinds[index]) == BlockKind::partial) {
        const std::uint64_t* row =
            blocks.bits + blocks.bit_offsets[index] + query % blocks.block_q * ceil_div(blocks.block_k, 64);
        const std::int64_t shift = offset % 64;
        part = row[offset / 64] >> shift;
        if (shift + length > 64) part |= row[offset / 64 + 1] << (64 - shift);
        part &= low_bits(length);
      }
      bits |= part << done;
      done += length;
    }
    return bits;
  }

  /// Keys [key, key + count) of `query` that the dense mask allows, as bits.
  std::uint64_t dense_bits(std::int64_t query, std::int64_t key, std::int64_t count) const {
    const View<const bool, 4>& allow = args->allow;
    const std::int64_t stride = allow.stride(3);
    const bool* row =
        allow.data + batch * allow.stride(0) + head * allow.stride(1) + query * allow.stride(2) + key * stride;
    std::uint64_t bits = 0;
    if (stride == 1 && count == kWordKeys<T>) {
      const hn::CappedTag<std::uint8_t, kWordKeys<T>> d8;
      const auto bytes = hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(row));
      std::uint8_t packed[8] = {};
      hn::StoreMaskBits(d8, hn::Ne(bytes, hn::Zero(d8)), packed);
      std::memcpy(&bits, packed, sizeof(bits));
      return bits;
    }
    for (std::int64_t j = 0; j < count; ++j) bits |= static_cast<std::uint64_t>(row[j * stride]) << j;
    return bits;
  }

  /// Whether the bias, if there is one, leaves `key` to `query`.
  bool bias_allows(std::int64_t query, std::int64_t key) const {
    const View<const T, 4>& bias = args->bias;
    return bias.data == nullptr || bias(batch, head, query, key) != -std::numeric_limits<T>::infinity();
  }

  /// Kind of the word at `key` for `rows` queries from `query`; limit(query + rows - 1) > key.
  WordKind word_kind(std::int64_t query, std::int64_t rows, std::int64_t key) const {
    bool full = key + kWordKeys<T> <= limit(query) && !is_dense();
    if (has_blocks()) {
      const std::int64_t keys = std::min(kWordKeys<T>, limit(query + rows - 1) - key);
      const BlockKind kind = block_kind(query, rows, key, keys);
      if (kind == BlockKind::empty) return WordKind::skipped;
      full = full && kind == BlockKind::full;
    }
    return full ? WordKind::full : WordKind::masked;
  }

  /// The bits of a masked word of keys, for each row.
  void word_bits(std::int64_t query, std::int64_t rows, std::int64_t key, std::uint64_t* bits) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t count = std::clamp<std::int64_t>(limit(query + i) - key, 0, kWordKeys<T>);
      bits[i] = low_bits(count);
      if (count > 0 && has_blocks()) bits[i] &= block_bits(query + i, key, count);
      if (count > 0 && is_dense()) bits[i] &= dense_bits(query + i, key, count);
    }
  }
};

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
