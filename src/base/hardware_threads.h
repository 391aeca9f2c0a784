// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ennead::base {

/// Threads the hardware runs at once; 0 where unknown.
int hardware_threads();

}  // namespace ennead::base
