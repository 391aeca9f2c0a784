// SPDX-License-Identifier: Apache-2.0
// What the check found, as a table.
#pragma once

#include <string>

#include "harness/verify.h"
#include "render/terminal.h"

namespace ennead::render {

std::string verdict_table(const harness::Verification& verification, const Terminal& terminal);

}  // namespace ennead::render
