// SPDX-License-Identifier: Apache-2.0
// Times several contenders in rounds: every round runs each once, in random order, so that whatever
// the machine does to one it does to all, and the times of a round can be paired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/clock.h"

namespace ennead::harness {

struct Contender {
  std::string name;
  std::function<void()> run;
};

struct RoundsOptions {
  double warm_up_seconds = 3;     ///< a contender is not warmed up for longer
  double seconds = 30;            ///< stop before the round that would pass this
  int min_rounds = 3;             ///< but not before these
  int max_rounds = 101;           ///< more only polishes digits
  double sample_seconds = 0.002;  ///< short calls are repeated until a sample lasts this long
  std::uint64_t seed = 0;         ///< of the order within each round
  Clock now = wall_clock();
  Clock cpu_now = cpu_clock();
  std::function<bool()> stop = [] { return false; };  ///< asked between calls
  std::function<void()> around = [] {};               ///< called before and after every sample, untimed
  std::function<void(const std::string& what)> progress = [](const std::string&) {};
};

struct Samples {
  std::vector<std::int64_t> ns;  ///< per call, in order of rounds
  std::int64_t calls_per_sample = 1;
  int warm_up_calls = 0;
  std::int64_t cpu_ns = 0, wall_ns = 0;  ///< over all samples, for the share of the CPU
};

struct Rounds {
  std::vector<Samples> samples;  ///< one per contender
  bool interrupted = false;

  /// Rounds that every contender finished: what may be paired.
  std::size_t complete() const;
};

/// Warms each contender up until its time no longer falls, then runs rounds.
Rounds run_rounds(const std::vector<Contender>& contenders, const RoundsOptions& options);

/// times[i] / base[i] over the complete rounds.
std::vector<double> paired_ratios(const Rounds& rounds, std::size_t contender, std::size_t base);

}  // namespace ennead::harness
