// SPDX-License-Identifier: Apache-2.0
#include "render/terminal.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#if defined(_WIN32)
#include <io.h>
#else
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace ennead::render {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first of these that is set decides, as in the C library.
bool locale_is_utf8() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    locale = environment(name);
    if (!locale.empty()) break;
  }
  std::string lower;
  for (char c : locale) {
    if (c != '-') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower.find("utf8") != std::string::npos;
}

int terminal_width() {
#if !defined(_WIN32)
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
  const int columns = std::atoi(environment("COLUMNS").c_str());
  return columns > 0 ? columns : 80;
}

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }

}  // namespace

bool is_terminal(std::FILE* stream) {
#if defined(_WIN32)
  return _isatty(_fileno(stream)) != 0;
#else
  return isatty(fileno(stream)) != 0;
#endif
}

Terminal detect_terminal() {
  Terminal terminal;
  terminal.width = std::clamp(terminal_width(), 40, 400);
  terminal.color = is_terminal(stdout) && environment("NO_COLOR").empty() && environment("TERM") != "dumb";
  terminal.unicode = locale_is_utf8();
  return terminal;
}

std::string styled(std::string_view text, Style style, const Terminal& terminal) {
  if (!terminal.color || style == Style::plain || text.empty()) return std::string(text);
  const char* code = "";
  switch (style) {
    case Style::plain:
      break;
    case Style::bold:
      code = "1";
      break;
    case Style::faint:
      code = "90";
      break;
    case Style::good:
      code = "32";
      break;
    case Style::bad:
      code = "31";
      break;
    case Style::bar:
      code = "34";
      break;
    case Style::bar_best:
      code = "32";
      break;
  }
  std::string result = "\x1b[";
  return result.append(code).append("m").append(text).append("\x1b[0m");
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t used = columns(text);
  return std::string(text) + std::string(used < width ? width - used : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t used = columns(text);
  return std::string(used < width ? width - used : 0, ' ') + std::string(text);
}

std::string cut(std::string_view text, std::size_t width, const Terminal& terminal) {
  if (columns(text) <= width || width == 0) return std::string(text);
  std::size_t bytes = 0, left = width - 1;
  while (bytes < text.size() && (left > 0 || !starts_character(text[bytes]))) {
    if (starts_character(text[bytes])) --left;
    ++bytes;
  }
  return std::string(text.substr(0, bytes)) + (terminal.unicode ? "…" : "~");
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t used = indent;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (used > indent && used + 1 + columns(word) > width) {
      result.append(1, '\n').append(indent, ' ');
      used = indent;
    } else if (used > indent) {
      result += ' ';
      ++used;
    }
    result += word;
    used += columns(word);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return result;
}

const Symbols& symbols(const Terminal& terminal) {
  static constexpr Symbols kUnicode{"×", "±", "–", "·", "─", "│"};
  static constexpr Symbols kAscii{"x", "+-", "-", ".", "-", "|"};
  return terminal.unicode ? kUnicode : kAscii;
}

}  // namespace ennead::render
