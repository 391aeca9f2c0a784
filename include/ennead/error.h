// SPDX-License-Identifier: Apache-2.0
// How ennead says no: one sentence that names what was expected and what came.
#pragma once

#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

/// Thrown by the public functions that take Tensors. what() is one sentence: expected, got.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a checker returns: the reason against the call, if there is one.
///
///     if (const Refusal refusal = check_attention(query, key, value, {}); !refusal.ok()) show(refusal.reason());
///
/// It does not convert to bool, because `if (check_attention(...))` reads as the opposite of what it would mean.
class [[nodiscard]] Refusal {
 public:
  /// No reason against.
  Refusal() = default;
  /// @param reason the sentence; an empty one is no reason
  Refusal(std::string reason) : reason_(std::move(reason)) {}  // NOLINT: meant to convert
  Refusal(const char* reason) : reason_(reason) {}             // NOLINT: meant to convert

  /// True when nothing speaks against the call.
  [[nodiscard]] bool ok() const noexcept { return reason_.empty(); }
  /// The sentence, expected and got; empty when ok().
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

/// Throws Error(sentence). Built without exceptions (WebAssembly) it traps: there, call the
/// checkers (check_...) first, which return the same sentence.
[[noreturn]] void raise(const std::string& sentence);

/// The thin face of a public function: throws when the checker refused.
inline void require(const Refusal& refusal) {
  if (!refusal.ok()) raise(refusal.reason());
}

namespace detail {
/// One piece of a sentence, written at the end of `text`. Real numbers have six digits.
inline void append(std::string& text, std::string_view part) { text += part; }
inline void append(std::string& text, char part) { text += part; }
void append(std::string& text, double number);
template <std::integral Integer>
void append(std::string& text, Integer number) {
  text += std::to_string(number);
}
}  // namespace detail

/// Writes its arguments, texts and numbers, one after the other into one string.
template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::string text;
  (detail::append(text, parts), ...);
  return text;
}

}  // namespace ennead
ENNEAD_API_END
