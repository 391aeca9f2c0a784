// SPDX-License-Identifier: Apache-2.0
#include "harness/machine.h"

#include "ennead/cpu.h"
#include "ennead/error.h"

#if __has_include(<sys/utsname.h>)
#include <sys/utsname.h>
#endif

namespace ennead::harness {
namespace {

std::string operating_system() {
#if __has_include(<sys/utsname.h>)
  utsname names{};
  if (uname(&names) == 0) return sentence(names.sysname, " ", names.release, " ", names.machine);
#endif
  return "unknown";
}

}  // namespace

MachineRecord machine_record(const std::string& isa, int threads) {
  const CacheSizes caches = cpu_caches();
  return {cpu_name(), {caches.l1d, caches.l2, caches.l3}, isa, threads, available_threads(), operating_system()};
}

std::string compiler_name() {
#if defined(__clang__)
  return sentence("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#elif defined(__GNUC__)
  return sentence("g++ ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#elif defined(_MSC_VER)
  return sentence("MSVC ", _MSC_VER);
#else
  return "unknown";
#endif
}

}  // namespace ennead::harness
