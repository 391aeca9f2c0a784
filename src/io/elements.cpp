// SPDX-License-Identifier: Apache-2.0
#include "io/elements.h"

#include <cmath>
#include <type_traits>

#include "ennead/error.h"

namespace ennead {

namespace io {
namespace {

/// The unsigned integer whose bytes start at `bytes`, whatever this machine's own order.
template <class Bits>
Bits load(const std::byte* bytes, bool big_endian) {
  Bits bits = 0;
  for (std::size_t i = 0; i < sizeof(Bits); ++i) {
    const std::size_t place = big_endian ? sizeof(Bits) - 1 - i : i;
    bits = static_cast<Bits>(bits | static_cast<Bits>(std::to_integer<Bits>(bytes[i]) << (8 * place)));
  }
  return bits;
}

template <class Bits>
void store(Bits bits, std::byte* bytes) {
  for (std::size_t i = 0; i < sizeof(Bits); ++i) bytes[i] = static_cast<std::byte>(bits >> (8 * i) & 0xff);
}

template <class Bits, class T, class ToValue>
std::optional<std::size_t> decode_as(bool big_endian, std::span<const std::byte> bytes, std::span<T> out,
                                     ToValue to_value) {
  std::optional<std::size_t> too_large;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto value = to_value(load<Bits>(bytes.data() + i * sizeof(Bits), big_endian));
    out[i] = static_cast<T>(value);
    if constexpr (sizeof(T) < sizeof(value)) {
      if (!too_large && std::isfinite(value) && !std::isfinite(out[i])) too_large = i;
    }
  }
  return too_large;
}

}  // namespace

std::optional<std::uint64_t> checked_bytes(std::span<const std::int64_t> sizes, std::size_t element_bytes) {
  std::uint64_t bytes = element_bytes;
  bool none = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return {};
    if (size == 0) none = true;
    if (size > 0 && bytes > kMaxBytes / static_cast<std::uint64_t>(size)) return {};
    if (size > 0) bytes *= static_cast<std::uint64_t>(size);
  }
  return none ? 0 : bytes;
}

template <class T>
Refusal check_readable(DType stored) {
  constexpr bool wants_bool = std::is_same_v<T, bool>;
  if (wants_bool == (stored == DType::boolean)) return {};
  return sentence("expected ", wants_bool ? "booleans" : "floating point numbers", ", got elements of type ",
                  name(stored));
}

template <class T>
std::optional<std::size_t> decode(DType stored, bool big_endian, std::span<const std::byte> bytes, std::span<T> out) {
  if constexpr (std::is_same_v<T, bool>) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = bytes[i] != std::byte{0};
    return {};
  } else {
    switch (stored) {
      case DType::float16:
        return decode_as<std::uint16_t>(big_endian, bytes, out, half_to_float);
      case DType::bfloat16:
        return decode_as<std::uint16_t>(big_endian, bytes, out, bfloat16_to_float);
      case DType::float32:
        return decode_as<std::uint32_t>(big_endian, bytes, out,
                                        [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
      case DType::float64:
        return decode_as<std::uint64_t>(big_endian, bytes, out,
                                        [](std::uint64_t bits) { return std::bit_cast<double>(bits); });
      case DType::boolean:
        break;
    }
    return {};
  }
}

template <class T>
void encode(std::span<const T> elements, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if constexpr (std::is_same_v<T, bool>) {
      bytes[i] = static_cast<std::byte>(elements[i] ? 1 : 0);
    } else {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      store(std::bit_cast<Bits>(elements[i]), bytes.data() + i * sizeof(T));
    }
  }
}

template Refusal check_readable<float>(DType);
template Refusal check_readable<double>(DType);
template Refusal check_readable<bool>(DType);
template std::optional<std::size_t> decode(DType, bool, std::span<const std::byte>, std::span<float>);
template std::optional<std::size_t> decode(DType, bool, std::span<const std::byte>, std::span<double>);
template std::optional<std::size_t> decode(DType, bool, std::span<const std::byte>, std::span<bool>);
template void encode(std::span<const float>, std::span<std::byte>);
template void encode(std::span<const double>, std::span<std::byte>);
template void encode(std::span<const bool>, std::span<std::byte>);

}  // namespace io
}  // namespace ennead
