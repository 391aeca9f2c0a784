// SPDX-License-Identifier: Apache-2.0
// Where the time comes from. Tests put a clock of their own in its place.
#pragma once

#include <cstdint>
#include <functional>

namespace ennead::harness {

/// Nanoseconds since some fixed moment; never steps back.
using Clock = std::function<std::int64_t()>;

/// Time as it passes.
Clock wall_clock();
/// CPU time all threads of this process have used.
Clock cpu_clock();

}  // namespace ennead::harness
