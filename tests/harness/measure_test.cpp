// SPDX-License-Identifier: Apache-2.0
// The measuring library, on clocks whose truth is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include "harness/limits.h"
#include "harness/noise.h"
#include "harness/result.h"
#include "harness/rounds.h"
#include "harness/statistics.h"

namespace ennead::harness {
namespace {

// Kills: a median of the middle element only, quantiles off by one.
TEST(Statistics, Quantiles) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.9), 7);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_DOUBLE_EQ(spread({90, 100, 110, 100, 100}), 0);
}

std::vector<double> counting(int n) {
  std::vector<double> values;
  for (int i = n; i >= 1; --i) values.push_back(i);
  return values;
}

// Tables of the sign test: kills an order statistic too far in or out, and a coverage that is claimed
// rather than computed.
TEST(Statistics, IntervalOfTheMedianFollowsTheBinomialLaw) {
  const Interval six = median_interval(counting(6));
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
  EXPECT_NEAR(six.coverage, 1 - 2.0 / 64, 1e-12);
  const Interval twenty = median_interval(counting(20));
  EXPECT_EQ(twenty.low, 6);
  EXPECT_EQ(twenty.high, 15);
  EXPECT_NEAR(twenty.coverage, 0.9586, 1e-4);
  const Interval three = median_interval(counting(3));
  EXPECT_EQ(three.low, 1);
  EXPECT_EQ(three.high, 3);
  EXPECT_NEAR(three.coverage, 0.75, 1e-12);
  EXPECT_GT(median_interval(counting(3001)).low, 1400);  // no underflow of 2^-n
}

// Kills [5, 5] for the single value 5, and a spread of 0: both look like certainty.
TEST(Statistics, OneValueHasNeitherAnIntervalNorASpread) {
  const Interval one = median_interval({5});
  EXPECT_TRUE(std::isnan(one.low) && std::isnan(one.high));
  EXPECT_EQ(one.coverage, 0);
  EXPECT_TRUE(std::isnan(spread({5})));
  EXPECT_EQ(median_interval({5, 7}).high, 7);
  EXPECT_DOUBLE_EQ(median_interval({5, 7}).coverage, 0.5);
}

// Kills a number of rounds that is said to be enough and is not: five hold 93.75 of 100.
TEST(Statistics, SixValuesAreNeeded) {
  EXPECT_EQ(values_needed(), 6u);
  EXPECT_EQ(values_needed(0.5), 2u);
  for (int n = 2; n < 20; ++n) {
    EXPECT_EQ(median_interval(counting(n)).coverage >= kConfidence, static_cast<std::size_t>(n) >= values_needed())
        << n;
  }
}

/// A machine whose time is what the work says, and that slows down as it runs.
struct Simulated {
  double now_ns = 0, slowdown_per_s = 0;
  std::uint64_t noise = 1;

  Clock clock() {
    return [this] { return static_cast<std::int64_t>(now_ns); };
  }
  /// Takes `ns`, up to 3 % more at random, times the slowdown so far.
  void work(double ns) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    const double luck = static_cast<double>(noise >> 40) / static_cast<double>(1 << 24);
    now_ns += ns * (1 + 0.03 * luck) * (1 + slowdown_per_s * now_ns * 1e-9);
  }
  RoundsOptions options() {
    RoundsOptions options;
    options.now = clock();
    options.cpu_now = clock();
    options.seconds = 2;
    options.sample_seconds = 0;
    return options;
  }
};

// The same work under two names: kills rounds that are not interleaved (the drift of 30 % a second
// would then favour the first) and ratios of unpaired medians.
TEST(Rounds, TheSameContenderTwiceDiffersByLessThanTwoPercent) {
  Simulated machine;
  machine.slowdown_per_s = 0.3;
  const std::vector<Contender> twice{{"a", [&] { machine.work(10e6); }}, {"b", [&] { machine.work(10e6); }}};
  const Rounds rounds = run_rounds(twice, machine.options());
  const std::vector<double> ratios = paired_ratios(rounds, 1, 0);
  EXPECT_GE(ratios.size(), 20u);
  EXPECT_NEAR(median(ratios), 1, 0.02);
  const Interval interval = median_interval(ratios);
  EXPECT_LE(interval.low, 1);
  EXPECT_GE(interval.high, 1);
}

// A stub that spins and times itself, by the real clock: kills a division by the wrong number of calls
// and work left outside the samples. Whatever else the machine does falls on both sides alike.
TEST(Rounds, SamplesAddUpToTheTimeThatPassed) {
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  double spent_ns = 0;
  const auto spin = [&] {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(5)) {
    }
    spent_ns += Nanoseconds(std::chrono::steady_clock::now() - start).count();
  };
  RoundsOptions options;
  options.min_rounds = options.max_rounds = 11;
  options.sample_seconds = 0.05;  // several calls in a sample
  int before_samples = 0;
  options.around = [&] {
    if (before_samples++ == 0) spent_ns = 0;
  };
  const Rounds rounds = run_rounds({{"spin", spin}}, options);
  ASSERT_EQ(rounds.complete(), 11u);
  EXPECT_GT(rounds.samples[0].calls_per_sample, 1);
  double sampled_ns = 0;
  for (std::int64_t ns : rounds.samples[0].ns) {
    sampled_ns += static_cast<double>(ns * rounds.samples[0].calls_per_sample);
  }
  EXPECT_NEAR(sampled_ns / spent_ns, 1, 0.02);
}

// Kills a fixed number of warm-up calls.
TEST(Rounds, WarmsUpUntilTheTimeIsFlat) {
  Simulated machine;
  int calls = 0;
  const Contender slow_starter{"slow starter", [&] {
                                 machine.now_ns += calls < 12 ? 100e6 * std::pow(0.8, calls) : 5e6;
                                 ++calls;
                               }};
  const Rounds rounds = run_rounds({slow_starter}, machine.options());
  EXPECT_GE(rounds.samples[0].warm_up_calls, 13);
  for (std::int64_t ns : rounds.samples[0].ns) EXPECT_EQ(ns, 5'000'000);
}

TEST(Rounds, EveryRoundRunsEachOnceInAnOrderOfItsOwn) {
  Simulated machine;
  std::vector<int> order;
  std::vector<Contender> contenders;
  for (int i = 0; i < 4; ++i) {
    contenders.push_back({"", [&machine, &order, i] {
                            machine.now_ns += 1e6;
                            order.push_back(i);
                          }});
  }
  RoundsOptions options = machine.options();
  options.min_rounds = options.max_rounds = 10;
  const Rounds rounds = run_rounds(contenders, options);
  int warm_up = 0;
  for (const Samples& samples : rounds.samples) warm_up += samples.warm_up_calls;
  std::vector<std::vector<int>> seen;
  for (std::size_t at = static_cast<std::size_t>(warm_up); at < order.size(); at += 4) {
    std::vector<int> round(order.begin() + static_cast<std::ptrdiff_t>(at),
                           order.begin() + static_cast<std::ptrdiff_t>(at + 4));
    if (std::find(seen.begin(), seen.end(), round) == seen.end()) seen.push_back(round);
    std::sort(round.begin(), round.end());
    EXPECT_EQ(round, (std::vector<int>{0, 1, 2, 3}));
  }
  EXPECT_GT(seen.size(), 3u);  // kills a fixed order
  EXPECT_EQ(rounds.complete(), 10u);
}

TEST(Rounds, TimeAndInterruptionEndTheRounds) {
  Simulated machine;
  RoundsOptions options = machine.options();
  options.seconds = 1;
  const std::vector<Contender> slow{{"slow", [&] { machine.now_ns += 100e6; }}};
  const Rounds in_time = run_rounds(slow, options);
  EXPECT_LE(machine.now_ns, 1e9);
  EXPECT_GE(in_time.complete(), 3u);
  EXPECT_FALSE(in_time.interrupted);

  // Interrupted in the middle of a round: what was measured is kept, only full rounds are paired.
  int calls = 0;
  const Contender one{"one", [&] { ++calls, machine.now_ns += 1e6; }};
  options.min_rounds = options.max_rounds = 50;
  options.stop = [&] { return calls >= 31; };
  const Rounds cut = run_rounds({one, one}, options);
  EXPECT_TRUE(cut.interrupted);
  EXPECT_GT(cut.complete(), 0u);
  EXPECT_LT(cut.complete(), 50u);
  EXPECT_EQ(paired_ratios(cut, 1, 0).size(), cut.complete());
}

Result example() {
  Result result;
  result.work.shape = {2, 16, 24, 30, 3, false, true};
  result.work.dtype = "float64";
  result.machine = {"a CPU", {1, 2, 3}, "avx2", 1, 2, "an OS"};
  result.build = {"abc", "g++ 12", "-O3"};
  result.peak_flops = {1e9, 2e9};
  Bar bar;
  bar.number = 3;
  bar.slug = "combined_qkv";
  bar.title = "Combined \"QKV\"";
  bar.samples_ns = {10, 12, 11};
  bar.median_ns = 11;
  bar.ratio_to_1 = 0.5;
  bar.ratio_interval = {0.4, 0.6};
  bar.ok = true;
  result.results = {bar};
  return result;
}

// Kills a field that is written but not read, and NaN written as text that no JSON reader takes.
TEST(Result, SurvivesTheFile) {
  const Result before = example();
  const std::string text = to_json(before);
  const Result after = result_from_json(text);
  EXPECT_EQ(to_json(after), text);
  EXPECT_EQ(after.work.shape, before.work.shape);
  EXPECT_EQ(after.results.at(0).samples_ns, before.results[0].samples_ns);
  EXPECT_TRUE(std::isnan(after.results.at(0).share_of_peak));
  EXPECT_EQ(after.results.at(0).peak_bytes, -1);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

/// The example with as many rounds as given.
Result with_rounds(std::size_t rounds) {
  Result result = example();
  result.results[0].samples_ns.assign(rounds, 10);
  result.ratio_coverage = median_interval(counting(static_cast<int>(rounds))).coverage;
  result.peak_flops = {2e9};
  return result;
}

// Kills a file that looks as sure after one round, or after three, as after six; and a bar that was
// never timed (as PyTorch's last in a backward pass) taken for rounds that are missing.
TEST(Result, TellsWhetherTheRoundsWereEnough) {
  const auto says = [](const Result& result, const std::string& what) {
    return to_json(result).find(what) != std::string::npos;
  };
  EXPECT_TRUE(says(with_rounds(1), "\"ratio_coverage\": null"));
  EXPECT_TRUE(says(with_rounds(1), "\"enough_rounds\": false"));
  EXPECT_TRUE(says(with_rounds(3), "\"ratio_coverage\": 0.75"));
  EXPECT_TRUE(says(with_rounds(3), "\"enough_rounds\": false"));
  EXPECT_TRUE(says(with_rounds(3), "\"ratio_confidence\": 0.95"));
  Result six = with_rounds(6);
  six.results.emplace_back();
  EXPECT_TRUE(says(six, "\"enough_rounds\": true"));
  EXPECT_TRUE(says(six, "\"rounds\": 6"));
  six.results.back().samples_ns = {1, 2, 3};
  EXPECT_EQ(six.rounds(), 3u);
}

TEST(Result, RefusesWhatIsNoResult) {
  EXPECT_THROW(result_from_json(""), Error);
  EXPECT_THROW(result_from_json("{}"), Error);
  EXPECT_THROW(result_from_json("{\"schema_version\": 2}"), Error);
}

TEST(Noise, SaysWhatWasSeen) {
  Result result = example();
  result.results[0].samples_ns.assign(20, 10);
  result.ratio_coverage = 0.96;
  EXPECT_TRUE(noise_warnings(result).size() == 1u);  // the two readings of the peak differ by half
  result.peak_flops = {2e9, 2e9};
  EXPECT_TRUE(noise_warnings(result).empty());
  result.results[0].spread = 0.2;
  result.results[0].share_of_peak = 1.01;
  result.results[0].cpu_share = 0.5;
  result.machine.threads = 1;
  EXPECT_EQ(noise_warnings(result).size(), 3u);
  result.machine.threads = 8;
  EXPECT_NE(noise_warnings(result).back().find("oversubscribed: 8 threads share the 2 CPUs"), std::string::npos);
}

// Kills silence about a single round, and a coverage in the words that is not that of the rounds.
TEST(Noise, SaysWhenTheRoundsAreTooFew) {
  EXPECT_TRUE(noise_warnings(with_rounds(0)).empty());
  ASSERT_EQ(noise_warnings(with_rounds(1)).size(), 1u);
  EXPECT_NE(noise_warnings(with_rounds(1))[0].find("only 1 round was completed: that gives no interval"),
            std::string::npos);
  ASSERT_EQ(noise_warnings(with_rounds(3)).size(), 1u);
  EXPECT_NE(noise_warnings(with_rounds(3))[0].find("hold the true ratio in 75% of cases, not in 95%; 6 are enough"),
            std::string::npos);
  EXPECT_TRUE(noise_warnings(with_rounds(6)).empty());
}

TEST(Machine, ThePeakIsAPositiveRate) {
  const auto one = make_serial_executor();
  const double peak = read_fma_peak(*one, Isa::scalar, Precision::float32, 0.005);
  EXPECT_GT(peak, 1e7);
  EXPECT_LT(peak, 1e12);
  ReadBandwidth stream(std::size_t{1} << 20);
  EXPECT_GT(stream.read(*one, 2), 1e8);
}

}  // namespace
}  // namespace ennead::harness
