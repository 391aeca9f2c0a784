// SPDX-License-Identifier: Apache-2.0
#include "io/npy_header.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>

#include "io/elements.h"
#include "io/text.h"

namespace ennead::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// Data starts at a multiple of this, as NumPy writes it.
constexpr std::size_t kAlignment = 64;

/// Walks over the text of a Python literal.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool take(char expected) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }

  bool take(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  /// A string in single or double quotes, without escapes: none of ours needs one.
  std::optional<std::string_view> take_string() {
    const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
    if (quote == '\0') return {};
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return {};
    const std::string_view string = text_.substr(at_, end - at_);
    if (string.find('\\') != std::string_view::npos) return {};
    at_ = end + 1;
    return string;
  }

  std::optional<std::int64_t> take_integer() {
    skip_space();
    std::int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return {};
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

  std::string_view rest() {
    skip_space();
    return text_.substr(at_, 40);
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

Refusal expected(std::string_view what, Cursor& cursor) {
  return sentence("expected ", what, " in the header, got ", cursor.at_end() ? "its end" : in_quotes(cursor.rest()));
}

Refusal parse_descr(Cursor& cursor, StoredArray& info) {
  const std::optional<std::string_view> descr = cursor.take_string();
  if (!descr) return expected("a simple element type as 'descr'", cursor);
  const std::string_view type = descr->substr(descr->empty() ? 0 : 1);
  const char order = descr->empty() ? '\0' : descr->front();
  const bool ordered = order == '<' || order == '>' || order == '=';
  info.big_endian = order == '>' || (order == '=' && std::endian::native == std::endian::big);
  if (ordered && type == "f2") {
    info.dtype = DType::float16;
  } else if (ordered && type == "u2") {
    info.dtype = DType::bfloat16;
  } else if (ordered && type == "f4") {
    info.dtype = DType::float32;
  } else if (ordered && type == "f8") {
    info.dtype = DType::float64;
  } else if (*descr == "|b1" || *descr == "?") {
    info.dtype = DType::boolean;
  } else {
    return sentence("expected elements of type f2, f4, f8, u2 (bfloat16 bits) or b1, got ", in_quotes(*descr));
  }
  return {};
}

Refusal parse_shape(Cursor& cursor, StoredArray& info) {
  if (!cursor.take('(')) return expected("a tuple as 'shape'", cursor);
  info.sizes = {};
  bool comma = true;
  while (!cursor.take(')')) {
    if (!comma) return expected("a comma or the end of 'shape'", cursor);
    const std::optional<std::int64_t> size = cursor.take_integer();
    if (!size) return expected("a size that fits 63 bits in 'shape'", cursor);
    if (*size < 0) return sentence("expected sizes of at least 0 in 'shape', got ", *size);
    if (info.sizes.rank() == kMaxRank) return sentence("expected at most ", kMaxRank, " axes, got more");
    info.sizes.push_back(*size);
    comma = cursor.take(',');
  }
  // Python reads (3) as the number 3.
  if (info.sizes.rank() == 1 && !comma) return sentence("expected a tuple as 'shape', got (", info.sizes[0], ")");
  return {};
}

Refusal parse_fortran_order(Cursor& cursor, StoredArray& info) {
  info.fortran_order = cursor.take("True");
  if (info.fortran_order || cursor.take("False")) return {};
  return expected("True or False as 'fortran_order'", cursor);
}

struct Key {
  std::string_view name;
  Refusal (*parse)(Cursor& cursor, StoredArray& info);
};
constexpr Key kKeys[] = {{"descr", parse_descr}, {"fortran_order", parse_fortran_order}, {"shape", parse_shape}};

Refusal parse_dictionary(std::string_view text, StoredArray& info) {
  Cursor cursor(text);
  unsigned seen = 0;
  bool comma = true;
  if (!cursor.take('{')) return expected("a dictionary", cursor);
  while (!cursor.take('}')) {
    if (!comma) return expected("a comma or the end of the dictionary", cursor);
    const std::optional<std::string_view> name = cursor.take_string();
    if (!name || !cursor.take(':')) return expected("a key and a colon", cursor);
    unsigned index = 0;
    while (index < std::size(kKeys) && kKeys[index].name != *name) ++index;
    if (index == std::size(kKeys)) {
      return sentence("expected the keys 'descr', 'fortran_order' and 'shape' in the header, got ", in_quotes(*name));
    }
    if ((seen >> index & 1u) != 0)
      return sentence("expected each key once in the header, got ", in_quotes(*name), " twice");
    seen |= 1u << index;
    if (Refusal refusal = kKeys[index].parse(cursor, info); !refusal.ok()) return refusal;
    comma = cursor.take(',');
  }
  if (!cursor.at_end()) return expected("nothing after the dictionary", cursor);
  for (unsigned index = 0; index < std::size(kKeys); ++index) {
    if ((seen >> index & 1u) == 0)
      return sentence("expected the key '", kKeys[index].name, "' in the header, got none");
  }
  return {};
}

}  // namespace

Refusal find_npy_data(std::span<const std::byte> start, std::uint64_t& data_offset) {
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text.empty()) return sentence("expected a .npy file, got an empty one");
  if (!text.starts_with(kMagic)) {
    return sentence("expected a .npy file, which starts with ", in_quotes(kMagic), ", got ",
                    in_quotes(text.substr(0, kMagic.size())));
  }
  if (start.size() < kNpyPreamble)
    return sentence("expected a whole .npy header, got a file of ", start.size(), " bytes");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(start[i]); };
  const std::uint32_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    return sentence("expected .npy version 1.0, 2.0 or 3.0, got ", major, ".", minor);
  }
  const std::uint32_t short_length = byte(8) | byte(9) << 8;
  const std::uint32_t length = major == 1 ? short_length : short_length | byte(10) << 16 | byte(11) << 24;
  if (length > kMaxNpyHeader) return sentence("expected a header of at most ", kMaxNpyHeader, " bytes, got ", length);
  data_offset = (major == 1 ? 10u : 12u) + std::uint64_t{length};
  return {};
}

Refusal parse_npy_header(std::span<const std::byte> header, StoredArray& info) {
  if (Refusal refusal = find_npy_data(header.first(std::min(header.size(), kNpyPreamble)), info.data_offset);
      !refusal.ok()) {
    return refusal;
  }
  const std::size_t text_offset = std::to_integer<int>(header[6]) == 1 ? 10 : 12;
  if (header.size() != info.data_offset) {
    return sentence("expected a header of ", info.data_offset, " bytes, got a file of ", header.size(), " bytes");
  }
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  if (Refusal refusal = parse_dictionary(text.substr(text_offset), info); !refusal.ok()) return refusal;
  if (!checked_bytes({info.sizes.begin(), info.sizes.end()}, size_in_bytes(info.dtype))) {
    return sentence("expected sizes whose bytes fit 63 bits, got ", to_string(info.sizes));
  }
  return {};
}

std::string format_npy_header(DType dtype, const Dims& sizes) {
  const std::string_view descr = dtype == DType::float16    ? "<f2"
                                 : dtype == DType::bfloat16 ? "<u2"
                                 : dtype == DType::float32  ? "<f4"
                                 : dtype == DType::float64  ? "<f8"
                                                            : "|b1";
  std::string text = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (int axis = 0; axis < sizes.rank(); ++axis) {
    text += (axis > 0 ? ", " : "") + std::to_string(sizes[axis]);
  }
  text += sizes.rank() == 1 ? ",), }" : "), }";
  const std::size_t preamble = kMagic.size() + 4;
  const std::size_t total = (preamble + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.resize(total - preamble - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace ennead::io
