// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "io/elements.h"
#include "io/text.h"

namespace ennead::io {
namespace {

/// IEEE half precision from its definition, in double: sign, 2^e, fraction.
double half_by_definition(unsigned bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 10 & 31u);
  const double fraction = (bits & 1023u) / 1024.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return exponent == 0 ? sign * std::ldexp(fraction, -14) : sign * std::ldexp(1 + fraction, exponent - 15);
}

// Mutants: a bias of 127 - 15 off by one; subnormals flushed; the sign of zero lost; a NaN that becomes infinite.
TEST(Elements, EveryHalfIsExact) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const double expected = half_by_definition(bits);
    const float got = half_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got) >> 13 & 1023u, bits & 1023u) << "payload of " << bits;
    } else {
      ASSERT_EQ(static_cast<double>(got), expected) << bits;
    }
    ASSERT_EQ(std::signbit(got), (bits & 0x8000u) != 0) << bits;
  }
}

// Mutant: a bfloat16 that goes through a rounding, which quiets NaN.
TEST(Elements, EveryBfloat16IsTheUpperHalfOfAFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(bfloat16_to_float(static_cast<std::uint16_t>(bits))), bits << 16);
  }
}

template <class T>
std::vector<T> decoded(DType dtype, bool big_endian, const std::vector<unsigned>& bytes) {
  std::vector<std::byte> raw;
  for (unsigned byte : bytes) raw.push_back(static_cast<std::byte>(byte));
  std::vector<T> out(raw.size() / size_in_bytes(dtype));
  EXPECT_EQ(decode<T>(dtype, big_endian, raw, out), std::nullopt);
  return out;
}

// Mutant: the byte order ignored, or applied to pairs of bytes only.
TEST(Elements, EitherByteOrder) {
  EXPECT_EQ(decoded<float>(DType::float16, false, {0x00, 0x3e, 0x01, 0x00}), (std::vector{1.5f, 0x1p-24f}));
  EXPECT_EQ(decoded<float>(DType::float16, true, {0x3e, 0x00, 0x00, 0x01}), (std::vector{1.5f, 0x1p-24f}));
  EXPECT_EQ(decoded<double>(DType::bfloat16, false, {0xc0, 0x3f}), (std::vector{1.5}));
  EXPECT_EQ(decoded<double>(DType::bfloat16, true, {0x3f, 0xc0}), (std::vector{1.5}));
  EXPECT_EQ(decoded<float>(DType::float32, false, {0x56, 0x34, 0x12, 0x40}), (std::vector{0x1.2468ac0000000p+1f}));
  EXPECT_EQ(decoded<float>(DType::float32, true, {0x40, 0x12, 0x34, 0x56}), (std::vector{0x1.2468ac0000000p+1f}));
  EXPECT_EQ(decoded<double>(DType::float64, false, {8, 7, 6, 5, 4, 3, 2, 0x40}), (std::vector{0x1.2030405060708p+1}));
  EXPECT_EQ(decoded<double>(DType::float64, true, {0x40, 2, 3, 4, 5, 6, 7, 8}), (std::vector{0x1.2030405060708p+1}));
  EXPECT_EQ(decoded<double>(DType::float64, true, {0x3f, 0xf8, 0, 0, 0, 0, 0, 0}), (std::vector{1.5}));
}

// Mutant: float64 truncated to float instead of rounded to nearest even.
TEST(Elements, Float64IsRoundedToTheNearestFloat) {
  const std::vector<double> values = {1 + 0x1p-24, 1 + 0x1.8p-24, 1 + 3 * 0x1p-24, -0.1, 1e-46, -0.0, NAN, -INFINITY};
  std::vector<std::byte> bytes(values.size() * 8);
  encode<double>(values, bytes);
  std::vector<float> got(values.size());
  EXPECT_EQ(decode<float>(DType::float64, false, bytes, got), std::nullopt);
  EXPECT_EQ(got[0], 1.0f);
  EXPECT_EQ(got[1], 1 + 0x1p-23f);
  EXPECT_EQ(got[2], 1 + 0x1p-22f);
  EXPECT_EQ(got[3], -0.1f);
  EXPECT_EQ(got[4], 0.0f);
  EXPECT_TRUE(got[5] == 0 && std::signbit(got[5]));
  EXPECT_TRUE(std::isnan(got[6]));
  EXPECT_EQ(got[7], -INFINITY);
}

// Mutants: an overflow that passes silently as infinity; an infinity in the file that is refused.
TEST(Elements, SaysWhichValueIsTooLarge) {
  const std::vector<double> values = {INFINITY, 3.4e38, 3.5e38, -1e300};
  std::vector<std::byte> bytes(values.size() * 8);
  encode<double>(values, bytes);
  std::vector<float> got(values.size());
  EXPECT_EQ(decode<float>(DType::float64, false, bytes, got), std::size_t{2});
}

// Mutant: a bool with another byte than 0 or 1 in it, which is no bool.
TEST(Elements, AnyOtherByteThanZeroIsTrue) {
  const std::array bytes = {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{255}};
  std::array<bool, 4> got{};
  EXPECT_EQ(decode<bool>(DType::boolean, false, bytes, got), std::nullopt);
  std::array<unsigned char, 4> raw{};
  std::memcpy(raw.data(), got.data(), 4);
  EXPECT_EQ(raw, (std::array<unsigned char, 4>{0, 1, 1, 1}));
}

// K11. Mutants: a product in 32 bits; the check after the multiplication; a zero that hides an overflow.
TEST(Elements, BytesOfSizesNeverOverflow) {
  constexpr std::int64_t kBig = std::int64_t{1} << 31;
  const auto bytes = [](std::vector<std::int64_t> sizes, std::size_t element) { return checked_bytes(sizes, element); };
  EXPECT_EQ(bytes({}, 8), 8u);
  EXPECT_EQ(bytes({3, 0, 5}, 4), 0u);
  EXPECT_EQ(bytes({kBig, 3}, 4), std::uint64_t{12} << 31);
  EXPECT_EQ(bytes({kBig, kBig}, 1), std::uint64_t{1} << 62);
  EXPECT_EQ(bytes({kBig, kBig}, 2), std::nullopt);
  EXPECT_EQ(bytes({kBig, kBig, kBig}, 1), std::nullopt);
  EXPECT_EQ(bytes({0, kBig, kBig, kBig}, 1), std::nullopt);
  EXPECT_EQ(bytes({-1}, 1), std::nullopt);
}

// Mutants: a terminal escape that goes through; valid UTF-8 torn apart; a long name in full.
TEST(Text, NamesAreFitForASentence) {
  EXPECT_EQ(in_quotes("W_query.weight"), "\"W_query.weight\"");
  EXPECT_EQ(in_quotes("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(in_quotes(std::string_view("\x1b[2J\0\n\x7f", 7)), "\"\\x1b[2J\\x00\\x0a\\x7f\"");
  EXPECT_EQ(in_quotes("donn\u00e9es \u2200 \U0001f600"), "\"donn\u00e9es \u2200 \U0001f600\"");
  EXPECT_EQ(in_quotes("\xff\xc3(\xc2\x9b"), "\"\\xff\\xc3(\\xc2\\x9b\"");
  EXPECT_LT(in_quotes(std::string(5000, 'x')).size(), 400u);
}

// Mutants: overlong forms, surrogates, or what is beyond Unicode taken for text.
TEST(Text, KnowsUtf8) {
  for (const char* good : {"", "a", "\u00e9", "\u20ac", "\U0010ffff", "\ud7ff\ue000"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << in_quotes(bad);
  }
}

}  // namespace
}  // namespace ennead::io
