// SPDX-License-Identifier: Apache-2.0
// The race on the terminal: the shape card, a bar for each variant, and what each cost.
#pragma once

#include <string>

#include "harness/result.h"
#include "render/terminal.h"

namespace ennead::render {

std::string terminal_race(const harness::Result& result, const Terminal& terminal);

/// A bar of `width` columns filled to `share`, to an eighth of a column where blocks can be shown.
std::string bar_text(double share, std::size_t width, const Terminal& terminal);

}  // namespace ennead::render
