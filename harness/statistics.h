// SPDX-License-Identifier: Apache-2.0
// Medians, quantiles and an interval for the median that assumes nothing about the distribution.
#pragma once

#include <cstddef>
#include <vector>

namespace ennead::harness {

/// The value below which a share `p` of `values` lies, interpolated; NaN for no values.
double quantile(std::vector<double> values, double p);
double median(std::vector<double> values);
/// Half the distance between the quartiles, relative to the median; NaN for fewer than two values,
/// which tell nothing of how they are spread.
double spread(const std::vector<double>& values);

/// What an interval is meant to have: how often ones made this way hold the truth.
inline constexpr double kConfidence = 0.95;

struct Interval {
  double low = 0, high = 0;
  double coverage = 0;  ///< how often an interval made this way holds the true median
};

/// The narrowest pair of order statistics that holds the median of the distribution with probability
/// >= confidence, whatever the distribution is (from the binomial law of how many values lie below
/// it). Fewer than six values cannot reach 95 %: then it is [min, max], with its real coverage. Fewer
/// than two have no interval: its ends are NaN, since one value twice would look like certainty.
Interval median_interval(std::vector<double> values, double confidence = kConfidence);

/// The fewest values whose median_interval has the coverage that was asked for.
std::size_t values_needed(double confidence = kConfidence);

}  // namespace ennead::harness
