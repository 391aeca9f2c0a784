// SPDX-License-Identifier: Apache-2.0
#include "ennead/error.h"

namespace ennead {

void raise(const std::string& sentence) {
#if defined(__cpp_exceptions)
  throw Error(sentence);
#else
  static_cast<void>(sentence);
  __builtin_trap();
#endif
}

}  // namespace ennead
