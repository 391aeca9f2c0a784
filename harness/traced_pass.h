// SPDX-License-Identifier: Apache-2.0
// Runs a pass with the trace on.
#pragma once

#include <cstdint>

#include "ennead/trace.h"
#include "ennead/variants.h"
#include "harness/work.h"

namespace ennead::harness {

struct TracedPass {
  Trace trace;
  std::int64_t wall_ns = 0;  ///< of the whole pass; what the events do not add up to is unexplained
  std::size_t peak_bytes = 0;
};

/// The median of several traced passes by time, after warming up.
TracedPass traced_pass(const VariantInfo& info, const Work& work, int passes = 5);

}  // namespace ennead::harness
