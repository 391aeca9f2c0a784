// SPDX-License-Identifier: Apache-2.0
// Medians, quantiles and an interval for the median that assumes nothing about the distribution.
#pragma once

#include <vector>

namespace ennead::measure {

/// The value below which a share `p` of `values` lies, interpolated; NaN for no values.
double quantile(std::vector<double> values, double p);
double median(std::vector<double> values);
/// Half the distance between the quartiles, relative to the median.
double spread(const std::vector<double>& values);

struct Interval {
  double low = 0, high = 0;
  double coverage = 0;  ///< how often an interval made this way holds the true median

  bool overlaps(const Interval& other) const { return low <= other.high && other.low <= high; }
};

/// The narrowest pair of order statistics that holds the median of the distribution with probability
/// >= confidence, whatever the distribution is (from the binomial law of how many values lie below
/// it). Fewer than six values cannot reach 95 %: then it is [min, max], with its real coverage.
Interval median_interval(std::vector<double> values, double confidence = 0.95);

}  // namespace ennead::measure
