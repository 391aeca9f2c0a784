// SPDX-License-Identifier: Apache-2.0
// What the place we print to can show.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace ennead::render {

struct Terminal {
  int width = 80;
  bool color = false;    ///< ANSI colours: a terminal, and NO_COLOR not set
  bool unicode = false;  ///< the locale is UTF-8
};

bool is_terminal(std::FILE* stream);
/// Of standard output. Not a terminal: COLUMNS or 80 wide, no colours.
Terminal detect_terminal();

enum class Style { plain, bold, faint, good, bad, bar, bar_best };

/// `text` in this style; unchanged where there are no colours.
std::string styled(std::string_view text, Style style, const Terminal& terminal);

/// Columns a UTF-8 text takes. Every character used here is one column wide.
std::size_t columns(std::string_view text);
/// Padded with spaces on the right (left) to `width` columns; never cut.
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);
/// Cut to `width` columns, the last a "…" (or '~') when something was cut.
std::string cut(std::string_view text, std::size_t width, const Terminal& terminal);
/// Broken at spaces into lines that end before column `width`; each starts at column `indent`, where the
/// caller already is.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// The symbols that have a plain spelling.
struct Symbols {
  const char *times, *plus_minus, *dash, *dot, *rule, *separator;
};
const Symbols& symbols(const Terminal& terminal);

}  // namespace ennead::render
