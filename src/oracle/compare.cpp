// SPDX-License-Identifier: Apache-2.0
#include "oracle/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace ennead::oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double error(double expected, double got) {
  if (std::isnan(expected) && std::isnan(got)) return 0;
  if (expected == got) return 0;  // equal infinities too
  const double difference = std::abs(expected - got);
  return std::isfinite(difference) ? difference : kInfinity;
}

double scale(std::span<const double> row) {
  double largest = 0;
  for (const double value : row) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

}  // namespace

Tolerance first_tolerance(double epsilon) {
  constexpr double kFloatEpsilon = std::numeric_limits<float>::epsilon();
  return {2e-5 * epsilon / kFloatEpsilon, 0};
}

Tolerance tolerance_against_first(double error_of_first, double epsilon, double factor) {
  return {factor * error_of_first, 4 * epsilon};
}

Tolerance tolerance_between(double error_of_first, double epsilon, double rounding) {
  return {4 * std::max(error_of_first, rounding), 4 * epsilon};
}

Comparison compare(std::span<const double> expected, std::span<const double> got, std::int64_t row_length,
                   const Tolerance& tolerance, std::span<const double> rounding) {
  Comparison result;
  const auto refuse = [&](const auto&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    result.ok = false;
    result.max_abs_err = kInfinity;
    result.mismatch = out.str();
    return result;
  };
  if (expected.size() != got.size()) {
    return refuse("expected ", expected.size(), " numbers, got ", got.size());
  }
  if (expected.empty()) return result;
  const auto length = static_cast<std::size_t>(row_length);
  if (row_length <= 0 || expected.size() % length != 0) {
    return refuse("expected rows of ", row_length, " numbers, got ", expected.size(), " numbers in all");
  }
  if (!rounding.empty() && rounding.size() != expected.size() / length) {
    return refuse("expected the rounding of ", expected.size() / length, " rows, got that of ", rounding.size());
  }

  result.count = static_cast<std::int64_t>(expected.size());
  double worst_excess = -kInfinity;
  for (std::size_t row = 0; row < expected.size() / length; ++row) {
    double allowed = tolerance.absolute + tolerance.relative * scale(expected.subspan(row * length, length));
    if (!rounding.empty() && std::isfinite(rounding[row])) allowed = std::max(allowed, kRoundingFactor * rounding[row]);
    for (std::size_t column = 0; column < length; ++column) {
      const std::size_t at = row * length + column;
      const double err = error(expected[at], got[at]);
      const bool passes = err <= allowed && err < kInfinity;  // written so that a NaN tolerance fails
      if (!passes) {
        result.ok = false;
        ++result.failed;
      }
      result.max_abs_err = std::max(result.max_abs_err, err);
      const double excess = passes ? err - allowed : (err > allowed ? err - allowed : kInfinity);
      if (excess > worst_excess || result.worst_row < 0) {
        worst_excess = excess;
        result.worst_row = static_cast<std::int64_t>(row);
        result.worst_column = static_cast<std::int64_t>(column);
        result.expected = expected[at];
        result.got = got[at];
        result.tolerance = allowed;
      }
    }
  }
  return result;
}

std::string describe(const Comparison& comparison) {
  if (!comparison.mismatch.empty()) return comparison.mismatch;
  if (comparison.count == 0) return "nothing to compare";
  std::ostringstream out;
  out.precision(9);
  out << "row " << comparison.worst_row << ", column " << comparison.worst_column << ": expected "
      << comparison.expected << ", got " << comparison.got;
  out.precision(3);
  out << " (error " << error(comparison.expected, comparison.got) << ", allowed " << comparison.tolerance << "); "
      << comparison.failed << " of " << comparison.count << " numbers are off";
  return out.str();
}

std::vector<double> to_doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace ennead::oracle
