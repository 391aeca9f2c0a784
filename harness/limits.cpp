// SPDX-License-Identifier: Apache-2.0
#include "harness/limits.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/kernels.h"

namespace ennead::harness {
namespace {

/// What one thread did, on its own cache line.
struct alignas(64) Span {
  std::int64_t start = std::numeric_limits<std::int64_t>::max(), end = 0;
  double amount = 0;
};

/// Each index runs `work` once; the rate counts from the first thread's start to the last one's end,
/// so the time threads take to wake is not held against the machine.
template <class Work>
double rate(Executor& executor, const Clock& now, const Work& work) {
  const int threads = executor.num_threads();
  std::vector<Span> spans(static_cast<std::size_t>(threads));
  executor.run(threads, [&](std::int64_t index, int) {
    Span& span = spans[static_cast<std::size_t>(index)];
    span.start = now();
    span.amount = work(index);
    span.end = now();
  });
  Span whole;
  for (const Span& span : spans) {
    whole.start = std::min(whole.start, span.start);
    whole.end = std::max(whole.end, span.end);
    whole.amount += span.amount;
  }
  return whole.amount / (static_cast<double>(std::max<std::int64_t>(whole.end - whole.start, 1)) * 1e-9);
}

template <class T>
double fma_peak(Executor& executor, Isa isa, double seconds, const Clock& now) {
  require(request_isa(isa));
  const auto& kernels = kernels::kernels_for<T>(isa);
  std::vector<Sum<T>> sinks(static_cast<std::size_t>(executor.num_threads()) * 64);
  // A short run tells how many iterations fill the time asked for.
  std::int64_t iterations = 2048;
  const std::int64_t start = now();
  kernels.peak_loop(iterations, sinks.data());
  const double once = static_cast<double>(std::max<std::int64_t>(now() - start, 100)) * 1e-9;
  iterations =
      std::max<std::int64_t>(iterations, static_cast<std::int64_t>(static_cast<double>(iterations) * seconds / once));
  return rate(executor, now, [&](std::int64_t index) {
    return kernels.peak_loop(iterations, sinks.data() + static_cast<std::size_t>(index) * 64);
  });
}

/// Eight sums side by side: enough loads in flight to be limited by memory alone.
std::uint64_t sum(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  }
  std::uint64_t total = 0;
  for (std::uint64_t each : sums) total += each;
  return total;
}

}  // namespace

double read_fma_peak(Executor& executor, Isa isa, Precision precision, double seconds, const Clock& now) {
  return precision == Precision::float32 ? fma_peak<float>(executor, isa, seconds, now)
                                         : fma_peak<double>(executor, isa, seconds, now);
}

ReadBandwidth::ReadBandwidth(std::size_t bytes) : words_(bytes / sizeof(std::uint64_t), 1) {}

double ReadBandwidth::read(Executor& executor, int repeats, const Clock& now) {
  const std::size_t threads = static_cast<std::size_t>(executor.num_threads());
  const std::size_t part = words_.size() / threads;
  std::vector<std::uint64_t> sums(threads * 8);
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    best = std::max(best, rate(executor, now, [&](std::int64_t index) {
                      const std::size_t thread = static_cast<std::size_t>(index);
                      sums[thread * 8] = sum(words_.data() + thread * part, part);
                      return static_cast<double>(part * sizeof(std::uint64_t));
                    }));
    for (std::size_t thread = 0; thread < threads; ++thread) sink_ += sums[thread * 8];
  }
  return best;
}

}  // namespace ennead::harness
