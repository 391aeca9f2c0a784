// SPDX-License-Identifier: Apache-2.0
#include "version.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

#include "build_info.h"
#include "ennead/cpu.h"
#include "harness/machine.h"

namespace ennead::cli {

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
      kVersion, kCommit, harness::compiler_name(), kFlags, fmt::join(isas, ", "), available_threads());
}

harness::BuildRecord build_record() { return {kCommit, harness::compiler_name(), kFlags}; }

}  // namespace ennead::cli
