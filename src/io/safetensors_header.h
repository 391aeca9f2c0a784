// SPDX-License-Identifier: Apache-2.0
// The head of a .safetensors file: 8 bytes of length, then JSON that names every tensor.
// Format: https://huggingface.co/docs/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ennead/io.h"

namespace ennead::io {

inline constexpr std::uint64_t kSafetensorsPreamble = 8;
/// As the reference implementation has it.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsHeader {
  std::vector<SafetensorsFile::Entry> entries;  ///< in the order of the data
  SafetensorsMetadata metadata;
};

/// The type a file means by e.g. "BF16", if it is one we read.
std::optional<DType> parse_safetensors_dtype(std::string_view text);
std::string_view safetensors_name(DType dtype);

/// Reads the JSON and checks every promise of the format: names once, known keys, sizes that match
/// the offsets, and data from the first byte to the last with neither hole nor overlap.
/// @param data_offset where the data starts; @param data_bytes how many there are
Refusal parse_safetensors_header(std::string_view json, std::uint64_t data_offset, std::uint64_t data_bytes,
                                 SafetensorsHeader& header);

/// Length and JSON for tensors written one after the other, padded so that the data is aligned.
/// Refuses names that are empty, twice there, or not UTF-8.
Refusal format_safetensors_header(std::span<const NamedRawTensor> tensors, const SafetensorsMetadata& metadata,
                                  std::string& header);

}  // namespace ennead::io
