// SPDX-License-Identifier: Apache-2.0
#include "ennead/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "support/expect.h"
#include "support/random.h"

namespace ennead {
namespace {

using test::refuses;

// Mutants: alignment of the system's allocator; the peak not kept; release by the rounded size.
TEST(Arena, AlignsAndCounts) {
  Arena arena({});
  std::byte* small = arena.allocate(3);
  std::byte* large = arena.allocate((std::size_t{2} << 20) + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % (std::size_t{2} << 20), 0u);
  EXPECT_EQ(arena.bytes_in_use(), 4 + (std::size_t{2} << 20));
  arena.release(large, (std::size_t{2} << 20) + 1);
  EXPECT_EQ(arena.bytes_in_use(), 3u);
  arena.release(arena.allocate(5), 5);
  EXPECT_EQ(arena.peak_bytes(), 4 + (std::size_t{2} << 20));
  arena.reset_peak();
  EXPECT_EQ(arena.peak_bytes(), 3u);
  EXPECT_EQ(arena.total_bytes(), 9 + (std::size_t{2} << 20));
  arena.release(small, 3);
  EXPECT_EQ(arena.bytes_in_use(), 0u);
  EXPECT_EQ(arena.allocate(0), nullptr);
}

// Mutants: a freed block is given to the system at once; a block that served a smaller request is
// remembered as small.
TEST(Arena, ReusesFreedBlocks) {
  Arena arena({});
  std::byte* first = arena.allocate(5000);
  arena.release(first, 5000);
  EXPECT_EQ(arena.allocate(4990), first);
  arena.release(first, 4990);
  EXPECT_EQ(arena.allocate(4000), first);
  arena.release(first, 4000);
  EXPECT_EQ(arena.allocate(5000), first);
  arena.release(first, 5000);
  arena.trim();
  arena.trim();
}

// Blocks in use never overlap and keep what was written, whatever is taken and freed around them.
// Mutant: a reused smaller block for a larger request.
TEST(Arena, RandomUseKeepsContents) {
  test::Random random(7);
  Arena arena({.limit_bytes = 0, .poison = true, .dry_run = false});
  struct Block {
    std::byte* data;
    std::size_t bytes;
    unsigned char fill;
  };
  std::vector<Block> blocks;
  std::size_t in_use = 0;
  for (int step = 0; step < 4000; ++step) {
    if (blocks.size() < 40 && random.coin(0.55)) {
      const auto bytes = static_cast<std::size_t>(random.integer(1, std::int64_t{1} << random.integer(1, 17)));
      std::byte* data = arena.allocate(bytes);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], std::byte{0xFF});  // poisoned, reused or not
      const auto fill = static_cast<unsigned char>(random.integer(0, 254));
      std::memset(data, fill, bytes);
      blocks.push_back({data, bytes, fill});
      in_use += bytes;
    } else if (!blocks.empty()) {
      const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(blocks.size()) - 1));
      const Block block = blocks[at];
      for (std::size_t i = 0; i < block.bytes; ++i) ASSERT_EQ(block.data[i], std::byte{block.fill});
      arena.release(block.data, block.bytes);
      in_use -= block.bytes;
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
      if (random.coin(0.02)) arena.trim();
    }
    ASSERT_EQ(arena.bytes_in_use(), in_use);
  }
  for (const Block& block : blocks) arena.release(block.data, block.bytes);
}

// Mutants: the limit compared with one request only; the sum of both overflows.
TEST(Arena, RefusesBeyondItsLimitNamingTheBytes) {
  Arena arena({.limit_bytes = 1000, .poison = false, .dry_run = false});
  std::byte* block = arena.allocate(600);
  EXPECT_TRUE(arena.check(400).ok());
  EXPECT_TRUE(refuses([&] { arena.allocate(401); }, {"1000", "401", "600"}));
  EXPECT_FALSE(arena.check(std::numeric_limits<std::size_t>::max()).ok());
  EXPECT_EQ(arena.bytes_in_use(), 600u);
  arena.release(block, 600);
  EXPECT_TRUE(arena.check(1000).ok());
}

// K11: what the machine does not have is refused before it is taken, at any size.
TEST(Arena, RefusesMoreThanTheMachineHas) {
  Arena arena({});
  for (const int bits : {50, 60, 62, 63}) {
    const std::size_t bytes = std::size_t{1} << bits;
    EXPECT_TRUE(refuses([&] { arena.allocate(bytes); }, {std::to_string(bytes)}));
  }
  EXPECT_FALSE(arena.check(std::numeric_limits<std::size_t>::max()).ok());
  EXPECT_EQ(arena.bytes_in_use(), 0u);
}

TEST(Arena, DryRunCountsWithoutMemory) {
  Arena arena({.limit_bytes = 0, .poison = true, .dry_run = true});
  std::byte* block = arena.allocate(std::size_t{1} << 45);  // an address nobody may follow
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(arena.bytes_in_use(), std::size_t{1} << 45);
  arena.release(block, std::size_t{1} << 45);
  EXPECT_EQ(arena.bytes_in_use(), 0u);
  EXPECT_EQ(arena.peak_bytes(), std::size_t{1} << 45);
}

}  // namespace
}  // namespace ennead
