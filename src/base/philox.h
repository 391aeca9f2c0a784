// SPDX-License-Identifier: Apache-2.0
// Random numbers that depend on a position, not on a history: the same draw for any split of work.
// Philox 4x32-10, from Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace ennead::base {

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Four random words for a key and a counter.
inline PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter) {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

/// A word as a number in [0, 1), in steps of 2^-24 so that float holds it exactly.
inline double uniform(std::uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

}  // namespace ennead::base
