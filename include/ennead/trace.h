// SPDX-License-Identifier: Apache-2.0
// What each operation cost. Off (no Trace in the Context) it costs nothing.
#pragma once

#include <cstdint>
#include <source_location>
#include <vector>

#include "ennead/export.h"
#include "ennead/tensor.h"

ENNEAD_API_BEGIN
namespace ennead {

/// A tensor an operation read or wrote.
struct TraceOperand {
  Dims sizes;
  std::int64_t bytes = 0;
  bool written = false;
};

struct TraceEvent {
  const char* op = "";
  std::source_location where = {};  ///< the line that called the operation
  double useful_flops = 0;          ///< what the result needs
  double executed_flops = 0;        ///< what the kernel does for it, masked products included
  std::int64_t bytes_read = 0;
  std::int64_t bytes_written = 0;
  std::int64_t bytes_allocated = 0;
  std::int64_t start_ns = 0;  ///< since the trace was made
  std::int64_t nanoseconds = 0;
  std::vector<TraceOperand> operands = {};
};

/// Collects one event per operation while it is set in a Context.
class Trace {
 public:
  Trace();
  /// Nanoseconds since the trace was made.
  std::int64_t now() const;

  std::vector<TraceEvent> events;

 private:
  std::int64_t origin_;
};

}  // namespace ennead
ENNEAD_API_END
