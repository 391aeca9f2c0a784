// SPDX-License-Identifier: Apache-2.0
// Catches: a type whose name does not read back, a choice at run time that becomes another type, and a type that
// files may hold being taken for one that ennead computes with.
#include "ennead/dtype.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace ennead {
namespace {

TEST(DType, NamesReadBack) {
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::boolean}) {
    EXPECT_EQ(parse_dtype(name(dtype)), dtype) << name(dtype);
  }
  EXPECT_EQ(parse_dtype("float"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(DType, Sizes) {
  EXPECT_EQ(size_in_bytes(DType::float16), 2U);
  EXPECT_EQ(size_in_bytes(DType::bfloat16), 2U);
  EXPECT_EQ(size_in_bytes(DType::float32), 4U);
  EXPECT_EQ(size_in_bytes(DType::float64), 8U);
  EXPECT_EQ(size_in_bytes(DType::boolean), 1U);
}

TEST(DType, AChoiceAtRunTimeBecomesAType) {
  const auto size_and_type = []<class T>() { return std::pair(sizeof(T), kDType<T>); };
  EXPECT_EQ(with_dtype(DType::float32, size_and_type), std::pair(sizeof(float), DType::float32));
  EXPECT_EQ(with_dtype(DType::float64, size_and_type), std::pair(sizeof(double), DType::float64));
  static_assert(std::is_same_v<Sum<float>, float> && std::is_same_v<Sum<const double>, double>);
  static_assert(IsElement<float> && IsElement<const double> && !IsElement<bool> && !IsElement<int>);
}

TEST(DType, OthersAreRefusedByName) {
  try {
    with_dtype(DType::float16, []<class T>() {});
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "dtype: expected one of float32, float64, got float16");
  }
}

}  // namespace
}  // namespace ennead
