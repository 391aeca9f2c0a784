// SPDX-License-Identifier: Apache-2.0
// The head of a .npy file: magic, version, and a Python dictionary with three keys.
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ennead/io.h"

namespace ennead::io {

/// Magic, version and the longest length field: what tells how long the header is.
inline constexpr std::size_t kNpyPreamble = 12;
/// Longer headers exist for structured types only, which we do not read.
inline constexpr std::size_t kMaxNpyHeader = std::size_t{1} << 16;

/// Finds where the data starts. `start` holds the first kNpyPreamble bytes of the file, fewer when
/// it has fewer.
Refusal find_npy_data(std::span<const std::byte> start, std::uint64_t& data_offset);

/// Reads a whole header, `header` being everything before the data.
Refusal parse_npy_header(std::span<const std::byte> header, StoredArray& info);

/// The header of an array in C order, padded so that the data is aligned.
std::string format_npy_header(DType dtype, const Dims& sizes);

}  // namespace ennead::io
