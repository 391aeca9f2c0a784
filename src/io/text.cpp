// SPDX-License-Identifier: Apache-2.0
#include "io/text.h"

namespace ennead::io {
namespace {

unsigned byte_at(std::string_view text, std::size_t position) {
  return position < text.size() ? static_cast<unsigned char>(text[position]) : 0u;
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t position) {
  const unsigned first = byte_at(text, position);
  if (position >= text.size()) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  unsigned code = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned next = byte_at(text, position + i);
    if ((next & 0xc0) != 0x80) return 0;
    code = code << 6 | (next & 0x3f);
  }
  const bool shortest = code >= (length == 2 ? 0x80u : length == 3 ? 0x800u : 0x10000u);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return first >= 0xc0 && first < 0xf8 && shortest && !surrogate && code < 0x110000 ? length : 0;
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    if (at >= kLongest) return out + "...\"";
    const std::size_t length = utf8_length(text, at);
    const unsigned byte = byte_at(text, at);
    const bool control = byte < 0x20 || byte == 0x7f || (byte == 0xc2 && byte_at(text, at + 1) < 0xa0);
    if (length == 0 || control) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
      ++at;
      continue;
    }
    if (byte == '"' || byte == '\\') out += '\\';
    out += text.substr(at, length);
    at += length;
  }
  return out + "\"";
}

}  // namespace ennead::io
