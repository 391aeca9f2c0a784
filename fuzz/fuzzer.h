// SPDX-License-Identifier: Apache-2.0
// What both fuzzers share: bytes become a file, and a broken property ends the process.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ennead::fuzz {

/// Memory where the system has such a place, so that a run does not wear out a disk.
inline std::string scratch_path(const char* name) {
  const std::filesystem::path memory = "/dev/shm";
  const auto directory = std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  return (directory / ("ennead-fuzz-" + std::to_string(::getpid()) + name)).string();
}

inline int try_bytes(const std::uint8_t* data, std::size_t size,
                     std::string (*problem_of)(const std::string& path, const std::string& scratch)) {
  const std::string path = scratch_path(".in"), scratch = scratch_path(".out");
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const std::string problem = problem_of(path, scratch);
  std::filesystem::remove(path);
  std::filesystem::remove(scratch);
  if (!problem.empty()) {
    std::fprintf(stderr, "%s\n", problem.c_str());
    std::abort();
  }
  return 0;
}

}  // namespace ennead::fuzz
