// SPDX-License-Identifier: Apache-2.0
// How ennead says no.
#include "ennead/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace ennead {
namespace {

// Mutants: a conversion to bool comes back, so that `if (check())` means the opposite of what it says; ok() turned
// round; require() that throws nothing.
TEST(Refusal, HoldsTheReasonAgainst) {
  static_assert(!std::is_convertible_v<Refusal, bool> && !std::is_constructible_v<bool, Refusal>);
  const auto check = [](int n) -> Refusal {
    if (n < 1) return sentence("n: expected 1 or more, got ", n);
    return {};
  };
  EXPECT_TRUE(check(1).ok());
  EXPECT_EQ(check(1).reason(), "");
  EXPECT_FALSE(check(0).ok());
  EXPECT_EQ(check(0).reason(), "n: expected 1 or more, got 0");
  EXPECT_NO_THROW(require(check(1)));
  try {
    require(check(-2));
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "n: expected 1 or more, got -2");
  }
}

// Mutants: a char written as its number; the sign of a 64-bit size lost; another number of digits.
TEST(Sentence, WritesTextsAndNumbers) {
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(sentence("a", std::string("b"), std::string_view("c"), 'd', 1, -2L, std::uint8_t{3}), "abcd1-23");
  EXPECT_EQ(sentence(kLowest, " ", std::numeric_limits<std::uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(sentence(0.5, " ", 1.0f, " ", 1e300, " ", 1.0 / 3, " ", 123456789.0), "0.5 1 1e+300 0.333333 1.23457e+08");
  EXPECT_EQ(sentence(std::numeric_limits<double>::infinity(), " ", -std::numeric_limits<double>::infinity()),
            "inf -inf");
}

}  // namespace
}  // namespace ennead
