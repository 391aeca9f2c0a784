// SPDX-License-Identifier: Apache-2.0
// The one rule by which numbers are compared: by the tests, by `ennead check` and before `ennead
// bench` times anything. It fails safe: a comparison passes only when every |expected - got| <= tolerance.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ennead::oracle {

/// A row passes when each of its errors is <= absolute + relative * (largest |expected| of that row), or
/// <= kRoundingFactor * what rounding may move that row by, where that is known.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

/// A forward result may be this many times worse than variant 1's, a gradient that many.
inline constexpr double kForwardFactor = 2, kGradientFactor = 3;

/// An error of this many times the estimate of oracle/rounding.h is no fault: the estimate is a root of a sum
/// of squares, and the largest of many errors is above it. The ten stay below 1.5 for x of any size.
inline constexpr double kRoundingFactor = 3;

/// What variant 1 itself must keep for N(0, 1) inputs: 2e-5 in float32, as many units of the last
/// place in other types. `epsilon` is std::numeric_limits<T>::epsilon().
Tolerance first_tolerance(double epsilon);
/// What every other variant must keep, given the largest error of variant 1 on the same input.
Tolerance tolerance_against_first(double error_of_first, double epsilon, double factor = kForwardFactor);
/// What two variants may differ by where the oracle did not look. Their errors add up, and
/// `error_of_first` comes from a sample of the rows, so this is twice as wide.
/// @param rounding JudgedRows::largest_rounding(): variant 1's error may happen to be smaller than what rounding
///   makes of a row
Tolerance tolerance_between(double error_of_first, double epsilon, double rounding);

struct Comparison {
  bool ok = true;
  double max_abs_err = 0;   ///< over everything; infinity where NaN or Inf is not matched by the same
  std::int64_t count = 0;   ///< numbers compared
  std::int64_t failed = 0;  ///< numbers out of tolerance
  /// The number that misses its tolerance by most, or comes closest to it.
  std::int64_t worst_row = -1, worst_column = -1;
  double expected = 0, got = 0, tolerance = 0;
  std::string mismatch;  ///< a sentence when the two cannot be compared at all

  explicit operator bool() const { return ok; }
};

/// Compares row by row. NaN must meet NaN, and an infinity the same infinity.
/// @param rounding of each row, from judged_rows(): how far rounding may move it. A row with large scores is
///   ill-conditioned, and then a variant is not wrong whose error is more than a few times variant 1's. Empty, or
///   not finite for a row: the tolerance alone counts.
Comparison compare(std::span<const double> expected, std::span<const double> got, std::int64_t row_length,
                   const Tolerance& tolerance, std::span<const double> rounding = {});

/// "row 3, column 17: expected 0.25, got 0.26 (error 0.01, allowed 2e-05); 12 of 768 numbers are off"
std::string describe(const Comparison& comparison);

/// Widens for comparison.
std::vector<double> to_doubles(std::span<const float> values);

}  // namespace ennead::oracle
