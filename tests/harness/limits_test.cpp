// SPDX-License-Identifier: Apache-2.0
// What the machine can do at most, read by a clock whose steps are known.
#include "harness/limits.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <vector>

#include "kernels/kernels.h"

namespace ennead::harness {
namespace {

/// Each reading is `step` nanoseconds after the one before.
Clock steady(std::int64_t step) {
  return [step, now = std::int64_t{0}]() mutable { return now += step; };
}

/// Two threads that run one after the other, so that a stepping clock sees them in a known order.
class TwoInTurn final : public Executor {
 public:
  int num_threads() const noexcept override { return 2; }
  void run(std::int64_t num_tasks, Task task) override {
    for (std::int64_t index = 0; index < num_tasks; ++index) task(index, static_cast<int>(index % 2));
  }
};

/// What one call of the loop says it did.
double loop_flops(std::int64_t iterations) {
  std::vector<float> sinks(64);
  return kernels::kernels_for<float>(Isa::scalar).peak_loop(iterations, sinks.data());
}

// Kills a rate per another unit than the second, ten times too small or too large, and a loop that is not
// as long as it was asked to be.
TEST(Limits, PeakIsFlopsBySeconds) {
  const auto one = make_serial_executor();
  // The trial of 2048 iterations takes one step, a millisecond, and so does whatever follows.
  EXPECT_DOUBLE_EQ(read_fma_peak(*one, Isa::scalar, Precision::float32, 0.001, steady(1'000'000)),
                   loop_flops(2048) / 0.001);
  EXPECT_DOUBLE_EQ(read_fma_peak(*one, Isa::scalar, Precision::float32, 0.010, steady(1'000'000)),
                   loop_flops(20'480) / 0.001);
  // Less time than the trial took: never a loop shorter than the trial.
  EXPECT_DOUBLE_EQ(read_fma_peak(*one, Isa::scalar, Precision::float32, 0.0001, steady(1'000'000)),
                   loop_flops(2048) / 0.001);
}

// Kills a division by zero, and endless loops, on a clock that is too coarse: 100 ns at least for the
// trial, 1 ns at least for the reading.
TEST(Limits, AClockThatStandsStillIsSurvived) {
  const auto one = make_serial_executor();
  const double expected = loop_flops(20'480) / 1e-9;
  EXPECT_NEAR(read_fma_peak(*one, Isa::scalar, Precision::float32, 1e-6, steady(0)), expected, 1e-3 * expected);
}

// Kills the amounts of one thread only, and times that are added up where the threads' spans are joined.
TEST(Limits, ThreadsCountFromTheFirstStartToTheLastEnd) {
  TwoInTurn two;
  // Trial: two readings. Then start, end, start, end: three steps from the first to the last.
  EXPECT_DOUBLE_EQ(read_fma_peak(two, Isa::scalar, Precision::float32, 0.001, steady(1'000'000)),
                   2 * loop_flops(2048) / 0.003);
}

// Kills the type taken for another: double has half the lanes in every set but the scalar one.
TEST(Limits, PeakIsOfTheTypeAskedFor) {
  const auto one = make_serial_executor();
  std::vector<double> sinks(64);
  EXPECT_DOUBLE_EQ(read_fma_peak(*one, Isa::scalar, Precision::float64, 0.001, steady(1'000'000)),
                   kernels::kernels_for<double>(Isa::scalar).peak_loop(2048, sinks.data()) / 0.001);
}

TEST(Limits, BandwidthIsBytesBySeconds) {
  const auto one = make_serial_executor();
  ReadBandwidth stream(std::size_t{1} << 20);
  EXPECT_DOUBLE_EQ(stream.read(*one, 1, steady(1'000'000)), (1 << 20) / 0.001);
  TwoInTurn two;
  EXPECT_DOUBLE_EQ(stream.read(two, 1, steady(1'000'000)), (1 << 20) / 0.003);
}

// Kills the last reading, or the worst, in the place of the best.
TEST(Limits, BandwidthIsTheBestOfItsPasses) {
  const auto one = make_serial_executor();
  ReadBandwidth stream(std::size_t{1} << 16);
  const std::int64_t readings[] = {0, 4000, 4000, 5000, 5000, 8000};  // passes of 4, 1 and 3 us
  std::size_t at = 0;
  EXPECT_DOUBLE_EQ(stream.read(*one, 3, [&] { return readings[at++]; }), (1 << 16) / 1e-6);
  EXPECT_EQ(at, std::size(readings));  // each pass was timed
}

// Kills other units than nanoseconds, and wall time for CPU time: another clock must agree.
TEST(Limits, ClocksCountNanoseconds) {
  const Clock wall = wall_clock(), cpu = cpu_clock();
  const std::int64_t wall_start = wall(), cpu_start = cpu();
  const std::clock_t start = std::clock();
  const auto by_the_library = [&] { return static_cast<double>(std::clock() - start) * (1e9 / CLOCKS_PER_SEC); };
  while (by_the_library() < 20e6) {
  }
  const double expected = by_the_library();
  EXPECT_NEAR(static_cast<double>(cpu() - cpu_start), expected, 2e6);
  EXPECT_GE(static_cast<double>(wall() - wall_start), 0.9 * expected);  // one thread: no less passes than it uses
  EXPECT_LE(static_cast<double>(wall() - wall_start), 60e9);
}

}  // namespace
}  // namespace ennead::harness
