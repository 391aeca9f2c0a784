// SPDX-License-Identifier: Apache-2.0
// JSON comes as events: nothing is built that the format does not have, so neither depth nor
// repeated keys can hide, and memory stays in proportion to the header.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "io/elements.h"
#include "io/safetensors_header.h"
#include "io/text.h"

namespace ennead::io {
namespace {

using Json = nlohmann::json;

/// Bits of an element of every type the format has by name, those we do not read included.
struct TypeBits {
  std::string_view name;
  std::uint64_t bits;
};
constexpr TypeBits kTypes[] = {{"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
                               {"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},
                               {"U32", 32}, {"F32", 32}, {"F64", 64}, {"I64", 64},    {"U64", 64}};

class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(SafetensorsHeader& header) : header_(header) {}

  const Refusal& refusal() const { return refusal_; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected("the number " + text); }
  bool number_integer(number_integer_t value) override { return unexpected("the number " + std::to_string(value)); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) return unexpected("a number");
    if (value > kMaxBytes) return unexpected("the number " + std::to_string(value));
    if (place_ == Place::shape) {
      entry_.sizes.push_back(static_cast<std::int64_t>(value));
    } else if (offsets_ == 2) {
      return unexpected("a third number");
    } else {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    }
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = text;
    } else if (place_ == Place::tensor && key_ == "dtype") {
      entry_.dtype = text;
    } else {
      return unexpected("the text " + in_quotes(text));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      place_ = Place::tensor;
      entry_ = {};
      entry_.name = key_;
    } else {
      return unexpected("an object");
    }
    keys_.clear();
    return true;
  }

  bool key(string_t& text) override {
    std::set<std::string>& seen = place_ == Place::top ? names_ : keys_;
    if (!seen.insert(text).second) {
      return refuse(sentence("expected every name once in the header, got ", in_quotes(text), " twice"));
    }
    key_ = text;
    if (place_ == Place::tensor && text != "dtype" && text != "shape" && text != "data_offsets") {
      return refuse(
          sentence("expected dtype, shape and data_offsets for ", in_quotes(entry_.name), ", got ", in_quotes(text)));
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      if (keys_.size() != 3) {
        return refuse(sentence("expected dtype, shape and data_offsets for ", in_quotes(entry_.name), ", got only ",
                               keys_.size(), " of them"));
      }
      header_.entries.push_back(entry_);
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || key_ == "dtype") return unexpected("a list");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    offsets_ = 0;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) return unexpected("a list of another length");
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    return refuse(sentence("expected JSON in the header, got something else at byte ", position, " of it"));
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };

  bool refuse(std::string text) {
    refusal_ = std::move(text);
    return false;
  }

  bool unexpected(const std::string& got) {
    switch (place_) {
      case Place::outside:
        return refuse("expected a JSON object as the header, got " + got);
      case Place::top:
        return refuse("expected an object for " + in_quotes(key_) + " in the header, got " + got);
      case Place::metadata:
        return refuse("expected text for " + in_quotes(key_) + " in __metadata__, got " + got);
      case Place::offsets:
        return refuse("expected two offsets of at least 0 for " + in_quotes(entry_.name) + ", got " + got);
      case Place::shape:
        return refuse("expected sizes of at least 0 for " + in_quotes(entry_.name) + ", got " + got);
      case Place::tensor:
        break;
    }
    return refuse("expected " + std::string(key_ == "dtype" ? "text" : "a list") + " as " + key_ + " of " +
                  in_quotes(entry_.name) + ", got " + got);
  }

  SafetensorsHeader& header_;
  Refusal refusal_;
  Place place_ = Place::outside;
  std::string key_;
  std::set<std::string> names_, keys_;
  SafetensorsFile::Entry entry_;
  int offsets_ = 0;
};

Refusal check_entry(const SafetensorsFile::Entry& entry, std::uint64_t data_bytes) {
  const std::string who = in_quotes(entry.name);
  if (entry.begin > entry.end || entry.end > data_bytes) {
    return sentence("expected offsets in ascending order and at most ", data_bytes, " for ", who, ", got ", entry.begin,
                    " and ", entry.end);
  }
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [&](const TypeBits& each) { return each.name == entry.dtype; });
  // A type of a later version of the format: its tensors cannot be read, the others can.
  if (type == std::end(kTypes)) return {};
  const std::optional<std::uint64_t> bytes = checked_bytes(entry.sizes, static_cast<std::size_t>(type->bits / 8));
  if (!bytes) return sentence("expected sizes whose bytes fit 63 bits for ", who, ", got more");
  if (*bytes != entry.end - entry.begin) {
    return sentence("expected ", *bytes, " bytes for ", who, " by its sizes and type, got ", entry.end - entry.begin,
                    " by its offsets");
  }
  return {};
}

/// In order of their offsets, the tensors must cover the data exactly.
Refusal check_cover(const std::vector<SafetensorsFile::Entry>& entries, std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  for (const SafetensorsFile::Entry& entry : entries) {
    if (entry.begin < covered) {
      return sentence("expected tensors that do not overlap, got ", in_quotes(entry.name), " starting at byte ",
                      entry.begin, " of the data, ", covered - entry.begin, " bytes into another");
    }
    if (entry.begin > covered) {
      return sentence("expected tensors without holes between them, got ", entry.begin - covered,
                      " bytes that belong to none before ", in_quotes(entry.name));
    }
    covered = entry.end;
  }
  if (covered == data_bytes) return {};
  return sentence("expected ", covered, " bytes of data after the header, got ", data_bytes);
}

}  // namespace

std::optional<DType> parse_safetensors_dtype(std::string_view text) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::boolean}) {
    if (safetensors_name(dtype) == text) return dtype;
  }
  return {};
}

std::string_view safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return "F16";
    case DType::bfloat16:
      return "BF16";
    case DType::float32:
      return "F32";
    case DType::float64:
      return "F64";
    case DType::boolean:
      break;
  }
  return "BOOL";
}

Refusal parse_safetensors_header(std::string_view json, std::uint64_t data_offset, std::uint64_t data_bytes,
                                 SafetensorsHeader& header) {
  // The parser would skip a byte order mark or leading space; the format has neither.
  if (!json.starts_with('{'))
    return sentence("expected a header that starts with {, got ", in_quotes(json.substr(0, 1)));
  // It would take a NUL for the end and leave the rest unread.
  if (const std::size_t nul = json.find('\0'); nul != std::string_view::npos) {
    return sentence("expected JSON in the header, got a NUL at byte ", nul, " of it");
  }
  HeaderReader reader(header);
  const bool parsed = Json::sax_parse(json.begin(), json.end(), &reader);
  if (!reader.refusal().ok()) return reader.refusal();
  if (!parsed) return "expected JSON in the header, got something else";
  // Empty tensors may share an offset; the name settles their order.
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  for (const SafetensorsFile::Entry& entry : header.entries) {
    if (Refusal refusal = check_entry(entry, data_bytes); !refusal.ok()) return refusal;
  }
  if (Refusal refusal = check_cover(header.entries, data_bytes); !refusal.ok()) return refusal;
  for (SafetensorsFile::Entry& entry : header.entries) {
    entry.begin += data_offset;
    entry.end += data_offset;
  }
  return {};
}

}  // namespace ennead::io
