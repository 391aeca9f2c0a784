// SPDX-License-Identifier: Apache-2.0
// What the machine can do at most: multiply-adds in registers, and reading memory.
#pragma once

#include <cstdint>
#include <vector>

#include "ennead/cpu.h"
#include "ennead/executor.h"
#include "harness/clock.h"

namespace ennead::harness {

enum class Precision { float32, float64 };

/// Multiply-adds of one instruction set, all threads of the executor at once, for about `seconds`.
/// A share of the peak is only as good as its peak, so take many readings and use the best.
/// @return FLOPs per second
double read_fma_peak(Executor& executor, Isa isa, Precision precision, double seconds, const Clock& now = wall_clock());

/// Reads memory as a stream, each thread its own part, a few times over.
class ReadBandwidth {
 public:
  /// @param bytes should be several times the last cache
  explicit ReadBandwidth(std::size_t bytes);
  /// @return the best bytes per second of `repeats` passes
  double read(Executor& executor, int repeats, const Clock& now = wall_clock());

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t sink_ = 0;
};

}  // namespace ennead::harness
