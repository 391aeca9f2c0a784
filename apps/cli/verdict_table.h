// SPDX-License-Identifier: Apache-2.0
// What the check found, as a table.
#pragma once

#include <string>

#include "render/terminal.h"
#include "verify.h"

namespace ennead::cli {

std::string verdict_table(const Verification& verification, const render::Terminal& terminal);

}  // namespace ennead::cli
