// SPDX-License-Identifier: Apache-2.0
// What this binary was built from.
#pragma once

#include <string>

#include "harness/result.h"

namespace ennead::cli {

/// "ennead 0.1.0 ...": commit, compiler, flags, instruction sets.
std::string version_text();
harness::BuildRecord build_record();

}  // namespace ennead::cli
