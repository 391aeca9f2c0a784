// SPDX-License-Identifier: Apache-2.0
#include "base/system_memory.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "base/cgroup.h"

namespace ennead::base {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t alignment_of(std::size_t bytes) { return bytes >= kHugePage ? kHugePage : kCacheLine; }

}  // namespace

std::byte* system_allocate(std::size_t bytes, bool huge) {
  auto* block = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment_of(bytes)}, std::nothrow));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  // Advice only: without huge pages everything works, with more page faults.
  if (block != nullptr && huge) ::madvise(block, bytes, MADV_HUGEPAGE);
#else
  static_cast<void>(huge);
#endif
  return block;
}

void system_release(std::byte* block, std::size_t bytes) noexcept {
  ::operator delete (block, std::align_val_t{alignment_of(bytes)});
}

std::size_t available_memory_bytes() {
  std::size_t available = std::numeric_limits<std::size_t>::max() / 2;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    if (key == "MemAvailable:") {
      std::size_t kibibytes = 0;
      if (meminfo >> kibibytes) available = kibibytes * 1024;
      break;
    }
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const std::size_t group = cgroup_memory_left();
  return group < available ? group : available;
}

}  // namespace ennead::base
