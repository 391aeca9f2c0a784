// SPDX-License-Identifier: Apache-2.0
#include "harness/clock.h"

#include <chrono>
#include <ctime>

namespace ennead::harness {

Clock wall_clock() {
  return [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  };
}

Clock cpu_clock() {
  return [] {
#ifdef CLOCK_PROCESS_CPUTIME_ID
    // std::clock() would do, but wraps after 36 minutes where clock_t has 32 bits.
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
#else
    return static_cast<std::int64_t>(static_cast<double>(std::clock()) * (1e9 / CLOCKS_PER_SEC));
#endif
  };
}

}  // namespace ennead::harness
