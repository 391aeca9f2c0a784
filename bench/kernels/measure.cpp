// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>

#include "kernels/kernels.h"

namespace ennead::bench {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// CPU time of all threads of this process.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

constexpr double kPeakSeconds = 0.3e-3;
/// std::clock() counts microseconds: a sample must be long against that, and against waking a thread.
constexpr double kSampleSeconds = 10e-3;

}  // namespace

double Peak::flops_per_second() const {
  const double start = wall_seconds();
  const double flops = loop(iterations);
  return flops / (wall_seconds() - start);
}

template <class T>
Peak make_peak(Isa isa) {
  require(request_isa(isa));
  Peak peak;
  peak.loop = [isa, sink = std::make_shared<Sum<T>>(1)](std::int64_t iterations) {
    return kernels::kernels_for<T>(isa).peak_loop(iterations, sink.get());
  };
  peak.iterations = 1000;
  while (true) {
    const double start = wall_seconds();
    peak.loop(peak.iterations);
    if (wall_seconds() - start >= kPeakSeconds) break;
    peak.iterations *= 2;
  }
  return peak;
}

template Peak make_peak<float>(Isa isa);
template Peak make_peak<double>(Isa isa);

std::vector<double> Measurement::shares() const {
  std::vector<double> all;
  for (const Sample& sample : samples) {
    all.push_back(flops / sample.cpu_seconds / ((sample.peak_before + sample.peak_after) / 2));
  }
  return all;
}

double Measurement::median_share() const { return median(shares()); }

double Measurement::median_wall_seconds() const {
  std::vector<double> all;
  for (const Sample& sample : samples) all.push_back(sample.wall_seconds);
  return median(all);
}

double Measurement::median_busiest_share() const {
  std::vector<double> all;
  for (const Sample& sample : samples) all.push_back(std::min(1.0, sample.wall_seconds / sample.cpu_seconds));
  return median(all);
}

Measurement measure(const std::function<void()>& run, double flops, const Peak& peak, int rounds) {
  const double first = wall_seconds();
  run();
  const double second = wall_seconds();
  run();
  const double warm = std::min(second - first, wall_seconds() - second);
  const int calls = std::max(1, static_cast<int>(kSampleSeconds / std::max(warm, 1e-9)));

  Measurement measurement;
  measurement.flops = flops;
  double peak_before = peak.flops_per_second();
  for (int round = 0; round < rounds; ++round) {
    Sample sample{};
    sample.peak_before = peak_before;
    const double wall = wall_seconds(), cpu = cpu_seconds();
    for (int call = 0; call < calls; ++call) run();
    sample.cpu_seconds = (cpu_seconds() - cpu) / calls;
    sample.wall_seconds = (wall_seconds() - wall) / calls;
    sample.peak_after = peak_before = peak.flops_per_second();
    measurement.samples.push_back(sample);
  }
  return measurement;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace ennead::bench
