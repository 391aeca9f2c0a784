// SPDX-License-Identifier: Apache-2.0
// The race as a picture that follows the reader's light or dark colours.
#pragma once

#include <string>

#include "harness/result.h"
#include "render/published.h"

namespace ennead::render {

std::string svg_race(const harness::Result& result, const Published& published);

}  // namespace ennead::render
