// SPDX-License-Identifier: Apache-2.0
// The race as a picture that follows the reader's light or dark colours.
#pragma once

#include <string>

#include "measure/result.h"
#include "render/published.h"

namespace ennead::render {

std::string svg_race(const measure::Result& result, const Published& published);

}  // namespace ennead::render
