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

/// How many of the first `count` bits are set.
std::int64_t bits_below(const std::uint64_t* words, std::int64_t count) {
  std::int64_t set = 0;
  for (; count >= 64; count -= 64) set += std::popcount(*words++);
  return count == 0 ? set : set + std::popcount(*words & ((std::uint64_t{1} << count) - 1));
}

/// Builds a mask in two passes, so that memory is taken once and in between: first the kind of every
/// block, then the bits of the partial ones.
class Builder {
 public:
  Builder(BlockMask::Data& mask, const BlockMask::RowFunction& row) : mask_(mask), row_(row) {
    blocks_per_head_ = mask.blocks_per_head();
    key_blocks_ = mask.blocks_per_row();
    words_ = static_cast<std::size_t>(mask.words_per_row());
  }

  std::int64_t blocks_per_head() const { return blocks_per_head_; }
  std::int64_t num_blocks() const { return mask_.batch * mask_.heads * blocks_per_head_; }

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
    at.query = block % blocks_per_head_ / key_blocks_ * mask_.block_size;
    block /= blocks_per_head_;
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
  std::int64_t blocks_per_head_ = 0, key_blocks_ = 0;
  std::size_t words_ = 0;
};

}  // namespace

BlockMask BlockMask::build(const Context& context, Data sizes, RowFunction row) {
  require(check_block_mask(sizes));
  const auto mask = std::make_shared<Data>(std::move(sizes));
  Builder builder(*mask, row);
  // The bits of partial blocks come on top; how many there are is not known yet.
  constexpr std::size_t kBytesPerBlock = sizeof(std::uint8_t) + sizeof(std::int64_t);
  require(check_sizes({mask->batch, mask->heads, builder.blocks_per_head()}, kBytesPerBlock));
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
  result.num_queries_ = mask->num_queries;
  result.num_keys_ = mask->num_keys;
  return result;
}

BlockMask BlockMask::top_left(std::int64_t num_queries, std::int64_t num_keys) const {
  if (empty()) raise("BlockMask::top_left: expected a block mask, got an empty one");
  if (num_queries < 0 || num_queries > num_queries_ || num_keys < 0 || num_keys > num_keys_) {
    raise(sentence("BlockMask::top_left: expected at most ", num_queries_, " queries and ", num_keys_, " keys, got ",
                   num_queries, " and ", num_keys));
  }
  BlockMask cut = *this;
  cut.num_queries_ = num_queries;
  cut.num_keys_ = num_keys;
  return cut;
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
  const auto words_per_row = static_cast<std::size_t>(data_->words_per_row());
  for (std::int64_t plane = 0; plane < batch() * heads(); ++plane) {
    for (std::int64_t query_block = 0; query_block < query_blocks(); ++query_block) {
      const std::int64_t rows = std::min(block_size(), num_queries() - query_block * block_size());
      for (std::int64_t key_block = 0; key_block < key_blocks(); ++key_block) {
        const std::int64_t keys = std::min(block_size(), num_keys() - key_block * block_size());
        const auto block = static_cast<std::size_t>(index(plane / heads(), plane % heads(), query_block, key_block));
        const auto kind = static_cast<Kind>(data_->kinds[block]);
        if (kind == Kind::full) pairs += rows * keys;
        if (kind != Kind::partial) continue;
        const std::uint64_t* words = data_->bits.data() + data_->bit_offsets[block];
        for (std::int64_t row = 0; row < rows; ++row, words += words_per_row) pairs += bits_below(words, keys);
      }
    }
  }
  return pairs;
}

}  // namespace ennead
