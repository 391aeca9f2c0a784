// SPDX-License-Identifier: Apache-2.0
#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace ennead::harness {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// P(exactly k of n fair coins fall heads), by logarithms: 2^-n underflows for n > 1074.
double coin_probability(std::size_t n, std::size_t k) {
  const double total = static_cast<double>(n), heads = static_cast<double>(k);
  return std::exp(std::lgamma(total + 1) - std::lgamma(heads + 1) - std::lgamma(total - heads + 1) -
                  total * std::log(2.0));
}

}  // namespace

double quantile(std::vector<double> values, double p) {
  if (values.empty()) return kNaN;
  std::sort(values.begin(), values.end());
  const double at = p * static_cast<double>(values.size() - 1);
  const std::size_t below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

double spread(const std::vector<double>& values) {
  if (values.size() < 2) return kNaN;
  return (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / median(values);
}

Interval median_interval(std::vector<double> values, double confidence) {
  if (values.size() < 2) return {kNaN, kNaN, 0};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  // The k-th smallest is above the median when fewer than k values fall below it.
  std::size_t k = 1;
  double tail = coin_probability(n, 0);  // P(fewer than k below)
  while (2 * (k + 1) <= n + 1) {
    const double wider = tail + coin_probability(n, k);
    if (1 - 2 * wider < confidence) break;
    tail = wider;
    ++k;
  }
  return {values[k - 1], values[n - k], 1 - 2 * tail};
}

std::size_t values_needed(double confidence) {
  std::size_t n = 2;
  while (1 - 2 * coin_probability(n, 0) < confidence) ++n;
  return n;
}

}  // namespace ennead::harness
