// SPDX-License-Identifier: Apache-2.0
// How ennead says no: one sentence that names what was expected and what came.
#pragma once

#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

/// Thrown by the public functions that take Tensors. what() is one sentence: expected, got.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a checker returns: nothing when the call is fine, else the sentence that says why not.
using Refusal = std::optional<std::string>;

/// Throws Error(sentence). Built without exceptions (WebAssembly) it traps: there, call the
/// checkers (check_...) first, which return the same sentence.
[[noreturn]] void raise(const std::string& sentence);

/// The thin face of a public function: throws when the checker refused.
inline void require(const Refusal& refusal) {
  if (refusal) raise(*refusal);
}

/// Writes its arguments one after the other into one string.
template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace ennead
ENNEAD_API_END
