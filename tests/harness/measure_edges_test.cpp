// SPDX-License-Identifier: Apache-2.0
// Where the measuring changes its mind: each rule on both sides of its limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/noise.h"
#include "harness/result.h"
#include "harness/rounds.h"
#include "harness/statistics.h"

namespace ennead::harness {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

/// A contender that takes the times it was given, the last one from then on, on a clock of its own.
struct Scripted {
  std::vector<std::int64_t> times;
  std::size_t calls = 0;
  std::int64_t now = 0;

  Contender contender() {
    return {"scripted", [this] {
              now += times[std::min(calls, times.size() - 1)];
              ++calls;
            }};
  }
  RoundsOptions options() {
    RoundsOptions options;
    options.now = [this] { return now; };
    options.cpu_now = [this] { return 2 * now; };  // two threads at work
    options.sample_seconds = 0;
    options.min_rounds = options.max_rounds = 1;
    return options;
  }
  int warm_up_calls(const RoundsOptions& options) {
    return run_rounds({contender()}, options).samples.at(0).warm_up_calls;
  }
};

// Two calls in a row that are no more than 2% faster than the best before: exactly 2% is flat.
TEST(Rounds, WarmUpEndsAfterTwoFlatCalls) {
  Scripted constant{{100}}, at_the_limit{{100, 98}}, faster{{100, 97}}, falling{{1000, 900, 900, 800}};
  EXPECT_EQ(constant.warm_up_calls(constant.options()), 3);
  EXPECT_EQ(at_the_limit.warm_up_calls(at_the_limit.options()), 3);
  EXPECT_EQ(faster.warm_up_calls(faster.options()), 4);
  EXPECT_EQ(falling.warm_up_calls(falling.options()), 6);  // one flat call, then a faster one: from the start
}

// Kills `<=` for the time, and a limit that is never reached: 300 + 200 ms is all of half a second.
TEST(Rounds, WarmUpEndsWithItsTime) {
  Scripted falling{{300 * kMillisecond, 200 * kMillisecond, 100 * kMillisecond, 50 * kMillisecond}};
  RoundsOptions options = falling.options();
  options.warm_up_seconds = 0.5;
  EXPECT_EQ(falling.warm_up_calls(options), 2);
}

TEST(Rounds, WarmUpEndsAfterTwoHundredCalls) {
  Scripted falling;
  for (double ns = 1e9; falling.times.size() < 300; ns *= 0.97) {
    falling.times.push_back(static_cast<std::int64_t>(ns));
  }
  RoundsOptions options = falling.options();
  options.warm_up_seconds = 1e6;
  EXPECT_EQ(falling.warm_up_calls(options), 200);
}

TEST(Rounds, ShortCallsAreRepeatedUntilASampleIsLongEnough) {
  Scripted half{{500'000}}, exact{{2 * kMillisecond}}, longer{{3 * kMillisecond}}, nothing{{0}};
  RoundsOptions options;
  const auto calls = [&](Scripted& scripted) {
    options = scripted.options();
    options.sample_seconds = 0.002;
    const Rounds rounds = run_rounds({scripted.contender()}, options);
    EXPECT_EQ(rounds.samples.at(0).ns.at(0), scripted.times.back());  // by call, however many there were
    return rounds.samples[0].calls_per_sample;
  };
  EXPECT_EQ(calls(half), 4);
  EXPECT_EQ(calls(exact), 1);
  EXPECT_EQ(calls(longer), 1);
  EXPECT_EQ(calls(nothing), 2'000'000);  // a nanosecond at least, or the number has no end
}

// 300 ms of warm-up and rounds of 100: the seventh ends on the second exactly and is still run.
TEST(Rounds, TheLastRoundIsTheOneThatFits) {
  Scripted scripted{{100 * kMillisecond}};
  RoundsOptions options = scripted.options();
  options.max_rounds = 100;
  options.seconds = 1;
  EXPECT_EQ(run_rounds({scripted.contender()}, options).complete(), 7u);
  EXPECT_EQ(scripted.now, 1000 * kMillisecond);
}

TEST(Rounds, FewestAndMostRoundsAreKept) {
  Scripted scripted{{100 * kMillisecond}};
  RoundsOptions options = scripted.options();
  options.seconds = 0;
  options.min_rounds = 3;
  options.max_rounds = 100;
  EXPECT_EQ(run_rounds({scripted.contender()}, options).complete(), 3u);
  options.seconds = 1e6;
  options.max_rounds = 5;
  EXPECT_EQ(run_rounds({scripted.contender()}, options).complete(), 5u);
}

// Kills CPU time that is counted outside the samples, or by the wall.
TEST(Rounds, CpuAndWallTimeAreThoseOfTheSamples) {
  Scripted scripted{{10 * kMillisecond}};
  RoundsOptions options = scripted.options();
  options.min_rounds = options.max_rounds = 4;
  options.around = [&] { scripted.now += 7 * kMillisecond; };
  const Rounds rounds = run_rounds({scripted.contender()}, options);
  EXPECT_EQ(rounds.samples.at(0).wall_ns, 40 * kMillisecond);
  EXPECT_EQ(rounds.samples[0].cpu_ns, 80 * kMillisecond);
}

// Kills a ratio upside down.
TEST(Rounds, RatiosDivideByTheBase) {
  Rounds rounds;
  rounds.samples.resize(2);
  rounds.samples[0].ns = {10, 20, 30};
  rounds.samples[1].ns = {20, 60};
  EXPECT_EQ(paired_ratios(rounds, 1, 0), (std::vector<double>{2, 3}));
  EXPECT_EQ(paired_ratios(rounds, 0, 1), (std::vector<double>{0.5, 1.0 / 3}));
  EXPECT_EQ(Rounds{}.complete(), 0u);
}

TEST(Statistics, SpreadIsHalfTheDistanceOfTheQuartiles) {
  EXPECT_DOUBLE_EQ(spread({80, 120, 100, 90, 110}), 0.1);
  EXPECT_DOUBLE_EQ(spread({100, 300}), 0.25);  // two tell something, one does not
}

// Kills an interval that goes past the middle, where its ends would change places.
TEST(Statistics, TheNarrowestIntervalIsTheMiddle) {
  const Interval odd = median_interval({1, 2, 3, 4, 5}, 0), even = median_interval({1, 2, 3, 4}, 0);
  EXPECT_EQ(odd.low, 3);
  EXPECT_EQ(odd.high, 3);
  EXPECT_NEAR(odd.coverage, 0, 1e-12);
  EXPECT_EQ(even.low, 2);
  EXPECT_EQ(even.high, 3);
  EXPECT_NEAR(even.coverage, 1 - 2 * 5.0 / 16, 1e-12);
}

/// One bar on a machine with nothing to remark.
Result quiet(std::vector<std::int64_t> samples = std::vector<std::int64_t>(20, 100)) {
  Result result;
  result.machine.threads = result.machine.available_threads = 1;
  result.ratio_coverage = 0.96;
  Bar bar;
  bar.slug = "a";
  bar.samples_ns = std::move(samples);
  bar.spread = 0.01;
  bar.share_of_peak = 0.5;
  bar.cpu_share = 1;
  result.results = {bar};
  return result;
}

bool warns(const Result& result, const std::string& what) {
  const std::vector<std::string> warnings = noise_warnings(result);
  return warnings.size() == 1 && warnings[0].find(what) != std::string::npos;
}

TEST(Result, TwoRoundsMakeAnInterval) {
  EXPECT_FALSE(quiet({}).has_intervals());
  EXPECT_FALSE(quiet({1}).has_intervals());
  EXPECT_TRUE(quiet({1, 1}).has_intervals());
}

TEST(Result, EnoughIsTheCoverageThatIsMeant) {
  Result result = quiet();
  result.ratio_coverage = kConfidence;
  EXPECT_TRUE(result.enough_rounds());
  result.ratio_coverage = std::nextafter(kConfidence, 0.0);
  EXPECT_FALSE(result.enough_rounds());
  result.ratio_coverage = kUnknown;
  EXPECT_FALSE(result.enough_rounds());
}

TEST(Result, TheBestPeakIsTheLargest) {
  Result result;
  EXPECT_EQ(result.best_peak(), 0);
  result.peak_flops = {2, 5, 3};
  EXPECT_EQ(result.best_peak(), 5);
}

TEST(Noise, QuietIsSilent) { EXPECT_TRUE(noise_warnings(quiet()).empty()); }

TEST(Noise, SpreadOverFivePercent) {
  Result result = quiet();
  result.results[0].spread = 0.05;
  EXPECT_TRUE(noise_warnings(result).empty());
  result.results[0].spread = 0.0501;
  EXPECT_TRUE(warns(result, "the times of a are spread by up to 5%"));
  result.results.push_back(result.results[0]);
  result.results[1].slug = "b";
  result.results[1].spread = 0.2;
  EXPECT_TRUE(warns(result, "the times of a, b are spread by up to 20%"));
}

TEST(Noise, ShareOfThePeakOverOne) {
  Result result = quiet();
  result.results[0].share_of_peak = 1;
  EXPECT_TRUE(noise_warnings(result).empty());
  result.results[0].share_of_peak = 1.001;
  EXPECT_TRUE(warns(result, "over 100%"));
}

TEST(Noise, CpuShareUnderNinetyFivePercent) {
  Result result = quiet();
  result.results[0].cpu_share = 0.95;
  EXPECT_TRUE(noise_warnings(result).empty());
  result.results[0].cpu_share = 0.949;
  EXPECT_TRUE(warns(result, "a CPU share under 95%"));
  result.machine.threads = result.machine.available_threads = 2;  // threads wait for each other, too
  EXPECT_TRUE(noise_warnings(result).empty());
}

// Five rounds have no halves to compare; six have, and the drift is that of the medians.
TEST(Noise, DriftOverFivePercent) {
  Result five = quiet({100, 100, 200, 200, 200});
  EXPECT_TRUE(noise_warnings(five).empty());
  EXPECT_TRUE(warns(quiet({100, 100, 100, 106, 106, 106}), "became 6% slower"));
  EXPECT_TRUE(warns(quiet({100, 100, 100, 94, 94, 94}), "became 6% faster"));
  EXPECT_TRUE(noise_warnings(quiet({100, 100, 100, 104, 104, 104})).empty());
  EXPECT_TRUE(noise_warnings(quiet({100, 100, 100, 96, 96, 96})).empty());
  EXPECT_TRUE(warns(quiet({100, 100, 900, 110, 110, 110}), "became 10% slower"));  // one long round is no drift
}

TEST(Noise, PeakReadingsTenPercentApart) {
  Result result = quiet();
  result.peak_flops = {90, 100, 90};
  EXPECT_TRUE(noise_warnings(result).empty());
  result.peak_flops = {89, 100, 89};
  EXPECT_TRUE(warns(result, "the middle one is 89% of the best"));
  result.peak_flops = {50};
  EXPECT_TRUE(noise_warnings(result).empty());
  result.peak_flops = {50, 100};
  EXPECT_TRUE(warns(result, "the middle one is 75% of the best"));
}

TEST(Noise, MoreThreadsThanCpus) {
  Result result = quiet();
  result.machine.threads = 3;
  result.machine.available_threads = 3;
  EXPECT_TRUE(noise_warnings(result).empty());
  result.machine.threads = 4;
  EXPECT_TRUE(warns(result, "oversubscribed: 4 threads share the 3 CPUs"));
  result.machine.available_threads = 0;  // unknown
  EXPECT_TRUE(noise_warnings(result).empty());
}

}  // namespace
}  // namespace ennead::harness
