// SPDX-License-Identifier: Apache-2.0
#include "ennead/error.h"

#include <charconv>

namespace ennead {

void raise(const std::string& sentence) {
#if defined(__cpp_exceptions)
  throw Error(sentence);
#else
  static_cast<void>(sentence);
  __builtin_trap();
#endif
}

void detail::append(std::string& text, double number) {
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::general, 6).ptr);
}

}  // namespace ennead
