// SPDX-License-Identifier: Apache-2.0
// The command line is wrong: exit status 2. Everything else that fails is exit status 1.
#pragma once

#include <stdexcept>

namespace ennead::cli {

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ennead::cli
