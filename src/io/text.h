// SPDX-License-Identifier: Apache-2.0
// Names from files and command lines, made fit to stand in a sentence.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ennead::io {

/// Bytes of the UTF-8 character that starts at `position`; 0 when there is no valid one.
std::size_t utf8_length(std::string_view text, std::size_t position);

bool is_utf8(std::string_view text);

/// The text in quotes, control characters and invalid bytes as \xNN, cut when very long: a hostile
/// name cannot drive the reader's terminal.
std::string in_quotes(std::string_view text);

}  // namespace ennead::io
