// SPDX-License-Identifier: Apache-2.0
#include "ennead/trace.h"

#include <chrono>

namespace ennead {
namespace {

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Trace::Trace() : origin_(steady_ns()) {}
std::int64_t Trace::now() const { return steady_ns() - origin_; }

}  // namespace ennead
