// SPDX-License-Identifier: Apache-2.0
// How far a result can be trusted, in words: what was seen and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "harness/result.h"

namespace ennead::harness {

std::vector<std::string> noise_warnings(const Result& result);

}  // namespace ennead::harness
