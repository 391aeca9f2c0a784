// SPDX-License-Identifier: Apache-2.0
// A recorded pass, gathered by source line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ennead/trace.h"
#include "harness/work.h"

namespace ennead::harness {

/// All events of one operation at one source line.
struct TraceLine {
  std::string op, where;  ///< "matmul", "weight_split.cpp:41"
  int calls = 0;
  double useful_flops = 0, executed_flops = 0;
  double bytes_read = 0, bytes_written = 0;
  double passes = 0;  ///< how often the T x T matrix of all heads was read or written
  std::int64_t nanoseconds = 0;

  double bytes() const { return bytes_read + bytes_written; }
};

/// In the order the lines first ran.
std::vector<TraceLine> gather(const Trace& trace, const Shape& shape);
TraceLine total(const std::vector<TraceLine>& lines);

}  // namespace ennead::harness
