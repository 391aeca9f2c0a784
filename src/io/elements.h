// SPDX-License-Identifier: Apache-2.0
// Numbers as files store them, and as we compute with them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "ennead/io.h"

namespace ennead::io {

/// The float with the value of IEEE half-precision `bits`, exactly; NaN payloads are kept.
constexpr float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  // Subnormal: fraction * 2^-24 is a normal float, so the product is exact.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

/// bfloat16 is the upper half of a float.
constexpr float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

/// The largest size in bytes that sizes and offsets may reach: pointer differences stay positive.
inline constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

/// sizes[0] * sizes[1] * ... * element_bytes, 0 when an axis is 0; nothing when a size is negative
/// or the product of the others is over kMaxBytes (strides are made from it even when an axis is 0).
std::optional<std::uint64_t> checked_bytes(std::span<const std::int64_t> sizes, std::size_t element_bytes);

/// Nothing when elements of type `stored` can be read as T.
template <class T>
Refusal check_readable(DType stored);

/// Decodes out.size() elements. Returns the index of the first finite value that is too large for
/// T; everything is decoded all the same.
template <class T>
std::optional<std::size_t> decode(DType stored, bool big_endian, std::span<const std::byte> bytes, std::span<T> out);

/// Encodes the elements as DTypeOf<T>, least significant byte first.
template <class T>
void encode(std::span<const T> elements, std::span<std::byte> bytes);

}  // namespace ennead::io
