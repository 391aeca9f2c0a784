// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ennead::test {

/// The root of the source tree, where golden values and corpora lie.
std::string source_dir();

}  // namespace ennead::test
