// SPDX-License-Identifier: Apache-2.0
// What this binary was built from.
#pragma once

#include <string>

#include "measure/result.h"

namespace ennead::cli {

/// "ennead 0.1.0 ...": commit, compiler, flags, instruction sets.
std::string version_text();
measure::BuildRecord build_record();
measure::MachineRecord machine_record(const std::string& isa, int threads);

}  // namespace ennead::cli
