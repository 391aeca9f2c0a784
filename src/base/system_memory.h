// SPDX-License-Identifier: Apache-2.0
// Memory from the operating system, and how much of it there is.
#pragma once

#include <cstddef>

namespace ennead::base {

/// 64-byte aligned memory, or nullptr. `huge`: 2 MiB aligned, with huge pages asked for.
std::byte* system_allocate(std::size_t bytes, bool huge);
void system_release(std::byte* block, std::size_t bytes) noexcept;

/// Bytes this process may still take: free memory, lowered to the cgroup's limit. Huge where the
/// system does not say.
std::size_t available_memory_bytes();

}  // namespace ennead::base
