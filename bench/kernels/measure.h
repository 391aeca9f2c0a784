// SPDX-License-Identifier: Apache-2.0
// Timing a kernel between two runs of the peak loop.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ennead/cpu.h"

namespace ennead::bench {

/// Arithmetic of the yardstick: multiply-adds on registers, FLOP/s of one thread.
struct Peak {
  std::function<double(std::int64_t iterations)> loop;  ///< returns the FLOPs it did
  std::int64_t iterations = 0;                          ///< of a run of about a millisecond

  /// Best of three runs.
  double flops_per_second() const;
};

template <class T>
Peak make_peak(Isa isa);

struct Sample {
  double wall_seconds, cpu_seconds, peak_before, peak_after;
};

struct Measurement {
  double flops = 0;  ///< useful ones of one call
  std::vector<Sample> samples;

  /// Useful FLOPs per second of CPU time, over the best peak around the sample.
  std::vector<double> shares() const;
  double median_share() const;
  double median_wall_seconds() const;
};

/// Calls `run` once to warm up, then `rounds` times between two peaks; short calls are repeated and
/// averaged.
Measurement measure(const std::function<void()>& run, double flops, const Peak& peak, int rounds);

double median(std::vector<double> values);

}  // namespace ennead::bench
