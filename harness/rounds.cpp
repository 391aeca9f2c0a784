// SPDX-License-Identifier: Apache-2.0
#include "harness/rounds.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace ennead::harness {
namespace {

std::int64_t time_calls(const Contender& contender, std::int64_t calls, const Clock& now) {
  const std::int64_t start = now();
  for (std::int64_t call = 0; call < calls; ++call) contender.run();
  return now() - start;
}

/// Calls until two calls in a row are no more than 2 % faster than the best before them. A fixed
/// number of calls would leave slow starters (page faults, clock ramps) inside the samples.
void warm_up(const Contender& contender, Samples& samples, const RoundsOptions& options) {
  constexpr int kMaxCalls = 200;
  const double max_ns = options.warm_up_seconds * 1e9;
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), spent = 0;
  int flat = 0;
  while (flat < 2 && samples.warm_up_calls < kMaxCalls && static_cast<double>(spent) < max_ns && !options.stop()) {
    const std::int64_t ns = time_calls(contender, 1, options.now);
    flat = static_cast<double>(ns) < 0.98 * static_cast<double>(best) ? 0 : flat + 1;
    best = std::min(best, ns);
    spent += ns;
    ++samples.warm_up_calls;
  }
  const double wanted = options.sample_seconds * 1e9;
  samples.calls_per_sample = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(wanted / static_cast<double>(std::max<std::int64_t>(best, 1))));
}

/// Fisher and Yates, written out: std::shuffle gives other orders in other standard libraries.
void shuffle(std::vector<std::size_t>& order, std::mt19937_64& random) {
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random() % left]);
}

}  // namespace

std::size_t Rounds::complete() const {
  std::size_t rounds = samples.empty() ? 0 : samples.front().ns.size();
  for (const Samples& each : samples) rounds = std::min(rounds, each.ns.size());
  return rounds;
}

Rounds run_rounds(const std::vector<Contender>& contenders, const RoundsOptions& options) {
  Rounds rounds;
  rounds.samples.resize(contenders.size());
  const std::int64_t start = options.now();
  for (std::size_t i = 0; i < contenders.size() && !options.stop(); ++i) {
    options.progress("warming up " + contenders[i].name);
    warm_up(contenders[i], rounds.samples[i], options);
  }

  std::mt19937_64 random(options.seed);
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::int64_t longest_round = 0;
  for (int round = 0; round < options.max_rounds; ++round) {
    const std::int64_t round_start = options.now();
    const double end_of_round = static_cast<double>(round_start - start + longest_round);
    if (round >= options.min_rounds && end_of_round > options.seconds * 1e9) break;
    options.progress("round " + std::to_string(round + 1));
    shuffle(order, random);
    for (std::size_t i : order) {
      if (options.stop()) {
        rounds.interrupted = true;
        return rounds;
      }
      Samples& samples = rounds.samples[i];
      options.around();
      const std::int64_t cpu_start = options.cpu_now();
      const std::int64_t ns = time_calls(contenders[i], samples.calls_per_sample, options.now);
      samples.cpu_ns += options.cpu_now() - cpu_start;
      samples.wall_ns += ns;
      samples.ns.push_back(ns / samples.calls_per_sample);
      options.around();
    }
    longest_round = std::max(longest_round, options.now() - round_start);
  }
  rounds.interrupted = options.stop();
  return rounds;
}

std::vector<double> paired_ratios(const Rounds& rounds, std::size_t contender, std::size_t base) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < rounds.complete(); ++round) {
    ratios.push_back(static_cast<double>(rounds.samples[contender].ns[round]) /
                     static_cast<double>(rounds.samples[base].ns[round]));
  }
  return ratios;
}

}  // namespace ennead::harness
