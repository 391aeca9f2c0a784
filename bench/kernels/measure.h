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
  std::int64_t iterations = 0;                          ///< of a run short enough to leave the clock as it is

  /// Of one run.
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

  /// Useful FLOPs per second of CPU time, over the mean of the peaks around the sample.
  std::vector<double> shares() const;
  double median_share() const;
  double median_wall_seconds() const;
  /// Wall over CPU time: no thread can have done more than this share of the work.
  double median_busiest_share() const;
};

/// Calls `run` twice to warm up, then `rounds` times, each between two short runs of the peak loop. They are
/// short because a core lowers its clock for a kernel and raises it again within two milliseconds of
/// multiply-adds on registers, by a tenth where this was measured: the peak wanted is that of the clock
/// at which the kernel ran. Short calls are repeated and averaged.
Measurement measure(const std::function<void()>& run, double flops, const Peak& peak, int rounds);

double median(std::vector<double> values);

}  // namespace ennead::bench
