// SPDX-License-Identifier: Apache-2.0
#include "version.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "build_info.h"
#include "ennead/cpu.h"

#if __has_include(<sys/utsname.h>)
#include <sys/utsname.h>
#endif

namespace ennead::cli {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#elif defined(_MSC_VER)
  return fmt::format("MSVC {}", _MSC_VER);
#else
  return "unknown";
#endif
}

std::string operating_system() {
#if __has_include(<sys/utsname.h>)
  utsname names{};
  if (uname(&names) == 0) return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
#endif
  return "unknown";
}

}  // namespace

std::string version_text() {
  std::vector<std::string_view> isas;
  for (Isa isa : supported_isas()) isas.push_back(name(isa));
  return fmt::format(
      "ennead {}\n"
      "commit    {}\n"
      "compiler  {}\n"
      "flags     {}\n"
      "targets   {} (built in and supported by this CPU, best first)\n"
      "threads   {} (what this process may use)",
      kVersion, kCommit, compiler(), kFlags, fmt::join(isas, ", "), available_threads());
}

measure::BuildRecord build_record() { return {kCommit, compiler(), kFlags}; }

measure::MachineRecord machine_record(const std::string& isa, int threads) {
  const CacheSizes caches = cpu_caches();
  return {cpu_name(), {caches.l1d, caches.l2, caches.l3}, isa, threads, available_threads(), operating_system()};
}

}  // namespace ennead::cli
