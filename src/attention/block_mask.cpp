// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>
#include <memory>

#include "base/system_memory.h"
#include "ennead/flex.h"

namespace ennead {
namespace {

Refusal check_block_mask(const BlockMask::Data& sizes) {
  constexpr std::int64_t kMax = std::numeric_limits<FlexIndex>::max();
  if (sizes.batch < 1 || sizes.heads < 1 || sizes.batch > kMax || sizes.heads > kMax) {
    return sentence("create_block_mask: expected a batch and heads of at least 1 (1: the same for all), got ",
                    sizes.batch, " and ", sizes.heads);
  }
  if (sizes.num_queries < 0 || sizes.num_keys < 0 || sizes.num_queries > kMax || sizes.num_keys > kMax) {
    return sentence("create_block_mask: expected numbers of queries and keys from 0 to ", kMax, ", got ",
                    sizes.num_queries, " and ", sizes.num_keys);
  }
  if (sizes.block_size < 1 || sizes.block_size > kMax) {
    return sentence("create_block_mask: expected a block_size from 1 to ", kMax, ", got ", sizes.block_size);
  }
  return {};
}

/// Builds a mask in two passes, so that memory is taken once and in between: first the kind of every
/// block, then the bits of the partial ones.
class Builder {
 public:
  Builder(BlockMask::Data& mask, const BlockMask::RowFunction& row) : mask_(mask), row_(row) {
    query_blocks_ = (mask.num_queries + mask.block_size - 1) / mask.block_size;
    key_blocks_ = (mask.num_keys + mask.block_size - 1) / mask.block_size;
    words_ = static_cast<std::size_t>(mask.words_per_row());
  }

  std::int64_t blocks_per_plane() const { return query_blocks_ * key_blocks_; }
  std::int64_t num_blocks() const { return mask_.batch * mask_.heads * blocks_per_plane(); }

  /// @param words memory for one row of bits
  void find_kind(std::int64_t block, std::uint64_t* words) {
    const Corner at = corner(block);
    std::int64_t allowed = 0;
    for (std::int64_t i = 0; i < at.num_queries; ++i) {
      evaluate(at, i, words);
      for (std::int64_t w = 0; w * 64 < at.num_keys; ++w) allowed += std::popcount(words[w]);
    }
    const auto kind = allowed == 0                              ? BlockMask::Kind::empty
                      : allowed == at.num_queries * at.num_keys ? BlockMask::Kind::full
                                                                : BlockMask::Kind::partial;
    mask_.kinds[static_cast<std::size_t>(block)] = static_cast<std::uint8_t>(kind);
  }

  void take_bits() {
    std::int64_t words = 0;
    const std::int64_t words_per_block = mask_.block_size * mask_.words_per_row();
    for (std::size_t block = 0; block < mask_.kinds.size(); ++block) {
      if (!is_partial(block)) continue;
      mask_.bit_offsets[block] = words;
      words += words_per_block;
    }
    mask_.bits.resize(static_cast<std::size_t>(words));
  }

  void fill_bits(std::int64_t block) {
    if (!is_partial(static_cast<std::size_t>(block))) return;
    const Corner at = corner(block);
    std::uint64_t* words = mask_.bits.data() + mask_.bit_offsets[static_cast<std::size_t>(block)];
    for (std::int64_t i = 0; i < at.num_queries; ++i) evaluate(at, i, words + static_cast<std::size_t>(i) * words_);
  }

 private:
  /// A block's place and its size inside the mask.
  struct Corner {
    std::int64_t batch, head, query, key, num_queries, num_keys;
  };

  bool is_partial(std::size_t block) const {
    return mask_.kinds[block] == static_cast<std::uint8_t>(BlockMask::Kind::partial);
  }

  Corner corner(std::int64_t block) const {
    Corner at{};
    at.key = block % key_blocks_ * mask_.block_size;
    block /= key_blocks_;
    at.query = block % query_blocks_ * mask_.block_size;
    block /= query_blocks_;
    at.head = block % mask_.heads;
    at.batch = block / mask_.heads;
    at.num_queries = std::min(mask_.block_size, mask_.num_queries - at.query);
    at.num_keys = std::min(mask_.block_size, mask_.num_keys - at.key);
    return at;
  }

  void evaluate(const Corner& at, std::int64_t i, std::uint64_t* words) const {
    row_(static_cast<FlexIndex>(at.batch), static_cast<FlexIndex>(at.head), static_cast<FlexIndex>(at.query + i),
         static_cast<FlexIndex>(at.key), static_cast<FlexIndex>(at.num_keys), words);
  }

  BlockMask::Data& mask_;
  const BlockMask::RowFunction& row_;
  std::int64_t query_blocks_ = 0, key_blocks_ = 0;
  std::size_t words_ = 0;
};

}  // namespace

BlockMask BlockMask::build(const Context& context, Data sizes, RowFunction row) {
  require(check_block_mask(sizes));
  const auto mask = std::make_shared<Data>(std::move(sizes));
  Builder builder(*mask, row);
  // The bits of partial blocks come on top; how many there are is not known yet.
  constexpr std::size_t kBytesPerBlock = sizeof(std::uint8_t) + sizeof(std::int64_t);
  require(check_sizes({mask->batch, mask->heads, builder.blocks_per_plane()}, kBytesPerBlock));
  const std::size_t bytes = static_cast<std::size_t>(builder.num_blocks()) * kBytesPerBlock;
  if (const std::size_t available = base::available_memory_bytes(); bytes > available) {
    raise(sentence("create_block_mask: expected a mask that fits into the ", available,
                   " bytes free on this machine, got ", builder.num_blocks(), " blocks of ", mask->block_size,
                   " that need ", bytes, " bytes"));
  }
  const auto blocks = static_cast<std::size_t>(builder.num_blocks());
  mask->kinds.resize(blocks);
  mask->bit_offsets.resize(blocks);
  Executor& executor = context.executor();
  const auto words_per_row = static_cast<std::size_t>(mask->words_per_row());
  std::vector<std::uint64_t> rows(static_cast<std::size_t>(executor.num_threads()) * words_per_row);
  executor.run(builder.num_blocks(), [&](std::int64_t block, int worker) {
    builder.find_kind(block, rows.data() + static_cast<std::size_t>(worker) * words_per_row);
  });
  builder.take_bits();
  executor.run(builder.num_blocks(), [&](std::int64_t block, int) { builder.fill_bits(block); });
  BlockMask result;
  result.data_ = mask;
  return result;
}

bool BlockMask::allowed(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  const std::int64_t block = index(b, h, q / block_size(), k / block_size());
  const auto kind = static_cast<Kind>(data_->kinds[static_cast<std::size_t>(block)]);
  if (kind != Kind::partial) return kind == Kind::full;
  const std::int64_t column = k % block_size();
  const std::int64_t word =
      data_->bit_offsets[static_cast<std::size_t>(block)] + q % block_size() * data_->words_per_row() + column / 64;
  return (data_->bits[static_cast<std::size_t>(word)] >> (column % 64) & 1) != 0;
}

std::int64_t BlockMask::allowed_pairs() const {
  std::int64_t pairs = 0;
  for (std::uint64_t word : data_->bits) pairs += std::popcount(word);
  for (std::int64_t b = 0; b < batch() * heads(); ++b) {
    for (std::int64_t query_block = 0; query_block < query_blocks(); ++query_block) {
      const std::int64_t rows = std::min(block_size(), num_queries() - query_block * block_size());
      for (std::int64_t key_block = 0; key_block < key_blocks(); ++key_block) {
        const std::int64_t keys = std::min(block_size(), num_keys() - key_block * block_size());
        if (kind(b / heads(), b % heads(), query_block, key_block) == Kind::full) pairs += rows * keys;
      }
    }
  }
  return pairs;
}

}  // namespace ennead
