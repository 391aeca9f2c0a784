// SPDX-License-Identifier: Apache-2.0
#include "harness/noise.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "ennead/error.h"
#include "harness/statistics.h"

namespace ennead::harness {
namespace {

std::string percent(double share) { return sentence(std::lround(share * 100), "%"); }

/// How much the second half of the rounds was slower than the first, over all bars.
double drift(const Result& result) {
  std::vector<double> changes;
  for (const Bar& bar : result.results) {
    const std::size_t half = bar.samples_ns.size() / 2;
    if (half < 3) continue;
    const auto middle = bar.samples_ns.begin() + static_cast<std::ptrdiff_t>(half);
    changes.push_back(median({middle, bar.samples_ns.end()}) / median({bar.samples_ns.begin(), middle}) - 1);
  }
  return changes.empty() ? 0 : median(changes);
}

}  // namespace

std::vector<std::string> noise_warnings(const Result& result) {
  constexpr double kSpread = 0.05, kDrift = 0.05, kPeakRange = 0.1, kCpuShare = 0.95;
  std::vector<std::string> warnings;
  const auto warn = [&](const auto&... parts) { warnings.push_back(sentence(parts...)); };

  std::string unsteady;
  double worst_spread = 0;
  bool starved = false, impossible = false;
  for (const Bar& bar : result.results) {
    if (bar.spread > kSpread) unsteady += (unsteady.empty() ? "" : ", ") + bar.slug;
    if (bar.spread > worst_spread) worst_spread = bar.spread;
    starved = starved || bar.cpu_share < kCpuShare;
    impossible = impossible || bar.share_of_peak > 1;
  }
  if (impossible) {
    warn(
        "a share of the peak is over 100%, which cannot be: the peak was read while the machine was slower; its "
        "readings and the shares are not to be used, run again on a quiet machine");
  }
  if (!unsteady.empty()) {
    warn("the times of ", unsteady, " are spread by up to ", percent(worst_spread),
         "; close other programs, or take more rounds with --seconds");
  }
  if (const std::size_t rounds = result.rounds(); rounds > 0 && !result.enough_rounds()) {
    const std::string few = sentence("only ", rounds, rounds == 1 ? " round was" : " rounds were", " completed: ");
    const std::string more = sentence("; ", values_needed(), " are enough, and --seconds gives more");
    if (result.has_intervals()) {
      warn(few, "the intervals span all of them and hold the true ratio in ", percent(result.ratio_coverage),
           " of cases, not in ", percent(kConfidence), more);
    } else {
      warn(few, "that gives no interval, so it does not show which variant is the fastest", more);
    }
  }
  if (result.machine.threads == 1 && starved) {
    warn("part of the time went to other programs (a CPU share under ", percent(kCpuShare),
         "); close them, or pin the process to an idle core");
  }
  if (const double change = drift(result); std::abs(change) > kDrift) {
    warn("the machine became ", percent(std::abs(change)), change > 0 ? " slower" : " faster",
         " between the first and the second half of the rounds (heat or neighbours); ratios within a round are still "
         "good, the times less so");
  }
  if (result.peak_flops.size() > 1) {
    const double typical = median(result.peak_flops), best = result.best_peak();
    if (typical < (1 - kPeakRange) * best) {
      warn("the readings of the multiply-add peak vary: the middle one is ", percent(typical / best),
           " of the best; shares of the peak are low by as much");
    }
  }
  if (result.machine.available_threads > 0 && result.machine.threads > result.machine.available_threads) {
    warn("oversubscribed: ", result.machine.threads, " threads share the ", result.machine.available_threads,
         " CPUs this process may use; --threads ", result.machine.available_threads, " is the most that helps");
  }
  return warnings;
}

}  // namespace ennead::harness
