// SPDX-License-Identifier: Apache-2.0
// Where a measurement is made: processor, caches, system and compiler, as a result file records them.
#pragma once

#include <string>

#include "harness/result.h"

namespace ennead::harness {

/// @param isa the name of the instruction set that is measured
MachineRecord machine_record(const std::string& isa, int threads);
/// The compiler of this binary and its version, such as "g++ 12.2.0".
std::string compiler_name();

}  // namespace ennead::harness
