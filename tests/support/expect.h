// SPDX-License-Identifier: Apache-2.0
// Assertions that speak of tensors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "ennead/error.h"
#include "ennead/tensor.h"
#include "oracle/compare.h"
#include "support/tensors.h"

namespace ennead::test {

/// EXPECT_TRUE(close(expected, got, tolerance)): rows run along the last axis of `got`.
/// @param rounding how far rounding may move each row, from oracle::judged_rows(), where that is known
template <class T>
testing::AssertionResult close(const std::vector<double>& expected, const Tensor<T>& got,
                               const oracle::Tolerance& tolerance, const std::vector<double>& rounding = {}) {
  const std::int64_t row_length = got.rank() == 0 ? 1 : got.size(-1);
  const oracle::Comparison comparison = oracle::compare(expected, to_doubles(got), row_length, tolerance, rounding);
  if (comparison.ok) return testing::AssertionSuccess();
  return testing::AssertionFailure() << oracle::describe(comparison);
}

/// A few units of the last place of the largest number in the row: for sums of `terms` products.
template <class T>
oracle::Tolerance rounding(std::int64_t terms = 1) {
  return {0, 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * std::max(1.0, static_cast<double>(terms))};
}

/// EXPECT_TRUE(refuses([&] { ... }, {"expected 8", "got 7"})): the call throws ennead::Error with one
/// sentence that holds all the words.
template <class Call>
testing::AssertionResult refuses(Call&& call, const std::vector<std::string>& words = {}) {
  try {
    call();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    if (sentence.empty() || sentence.find('\n') != std::string::npos) {
      return testing::AssertionFailure() << "not one sentence: \"" << sentence << '"';
    }
    for (const std::string& word : words) {
      if (sentence.find(word) == std::string::npos) {
        return testing::AssertionFailure() << "\"" << sentence << "\" does not name \"" << word << '"';
      }
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "threw something else: " << error.what();
  }
  return testing::AssertionFailure() << "was not refused";
}

}  // namespace ennead::test
