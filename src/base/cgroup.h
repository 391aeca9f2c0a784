// SPDX-License-Identifier: Apache-2.0
// What a container allows this process: CPU quota and memory.
#pragma once

#include <cstddef>

namespace ennead::base {

/// CPUs' worth of quota, rounded up; 0 when there is none.
int cgroup_cpu_quota();
/// Bytes until the memory limit; the largest size_t when there is none.
std::size_t cgroup_memory_left();

}  // namespace ennead::base
