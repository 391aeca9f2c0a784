// SPDX-License-Identifier: Apache-2.0
// The one file that is compiled with a path of this machine, so that a compiler cache serves all others in every
// checkout.
#include "support/source_dir.h"

namespace ennead::test {

std::string source_dir() { return ENNEAD_SOURCE_DIR; }

}  // namespace ennead::test
