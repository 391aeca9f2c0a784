// SPDX-License-Identifier: Apache-2.0
// The condition of a row: right answers pass whatever the size of x, wrong ones do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "oracle/rounding.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::kEpsilon;

constexpr std::int64_t kBatch = 2;

Config config_of(bool causal) {
  Config config{.d_in = 40, .d_out = 54, .context_length = 80, .num_heads = 3, .qkv_bias = true};
  config.is_causal = causal;
  return config;
}

template <class T>
test::ModuleCase<T> scaled_case(const Context& context, bool causal, double size, std::uint64_t seed) {
  test::ModuleCase<T> module(context, config_of(causal), kBatch, 37, seed);
  for (std::int64_t i = 0; i < module.x.num_elements(); ++i) module.x.data()[i] *= static_cast<T>(size);
  return module;
}

template <class T>
void right_answers_pass(double size) {
  const Context context = test::poisoned_context();
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const auto module = scaled_case<T>(context, seed % 2 == 0, size, seed);
    const oracle::JudgedRows expected = module.judged();
    oracle::Tolerance tolerance = oracle::first_tolerance(kEpsilon<T>);
    for (const VariantInfo& info : variants()) {
      const auto got = test::to_doubles(module.run(info));
      const auto compared = oracle::compare(expected.out, got, module.config.d_out, tolerance, expected.rounding);
      EXPECT_TRUE(compared.ok) << "x of size " << size << ", seed " << seed << ", " << info.slug << ": "
                               << oracle::describe(compared);
      if (info.number == 1) tolerance = oracle::tolerance_against_first(compared.max_abs_err, kEpsilon<T>);
    }
  }
}

// Kills a rule that takes large scores for a fault of the variant.
TEST(OracleRounding, RightAnswersPassWhateverTheSizeOfX) {
  for (const double size : {1.0, 100.0, 1e4, 1e6}) {
    right_answers_pass<float>(size);
    right_answers_pass<double>(size);
  }
}

template <class T>
void wrong_answers_fail(double size) {
  const Context context = test::poisoned_context();
  const auto module = scaled_case<T>(context, true, size, 5);
  const oracle::JudgedRows expected = module.judged();
  const auto fails = [&](const std::vector<double>& got, const std::string& fault) {
    // As wide as the rule gets: variant 1's error is what rounding makes of the worst row.
    const double worst = *std::max_element(expected.rounding.begin(), expected.rounding.end());
    const auto tolerance = oracle::tolerance_against_first(worst, kEpsilon<T>);
    EXPECT_FALSE(oracle::compare(expected.out, got, module.config.d_out, tolerance, expected.rounding))
        << fault << " at x of size " << size;
  };
  auto dropped_head = module;
  dropped_head.weights.W_value = test::copy_of(module.weights.W_value);
  for (std::int64_t row = 18; row < 36; ++row) {
    for (std::int64_t column = 0; column < 40; ++column) dropped_head.weights.W_value.at({row, column}) = 0;
  }
  fails(test::to_doubles(dropped_head.run(variants()[4])), "a head that is dropped");
  auto no_mask = module;
  no_mask.config.is_causal = false;
  fails(test::to_doubles(no_mask.run(variants()[4])), "a mask that is dropped");
  fails(module.judged({.causal_offset = 1}).out, "a mask that is off by one");
  fails(module.judged({.causal_offset = -1}).out, "a diagonal that is masked");
  std::vector<double> got = expected.out;
  got[1234] = std::numeric_limits<double>::quiet_NaN();
  fails(got, "a NaN");
  got = expected.out;
  std::swap_ranges(got.begin(), got.begin() + 54, got.begin() + 54);
  fails(got, "two rows that change places");
}

// Kills an allowance so wide that nothing is wrong any more.
TEST(OracleRounding, WrongAnswersFailWhateverTheSizeOfX) {
  for (const double size : {1.0, 1e4}) {
    wrong_answers_fail<float>(size);
    wrong_answers_fail<double>(size);
  }
}

/// How far the output of one head of size 1 may move with two keys of scores -1e6 and -1e6 - gap, values 3 and 5.
double moves_with(double gap) {
  oracle::Module module{1, 1, 1, {1}, {1}, {1}, {}, {}, {}, {1}, {}};
  const std::vector<double> x{1000, 1000};
  const oracle::Rounding rounding(module, x, kEpsilon<float>);
  const double q = 1000, k[] = {-1000, -1000 - gap / 1000}, v[] = {3, 5};
  const double scores[] = {-1e6, -1e6 - gap}, share = 1 / (1 + std::exp(-gap));
  const double out = 3 * share + 5 * (1 - share), lse = -1e6 + std::log1p(std::exp(-gap));
  double moves = 0;
  rounding.attended({0, 0, 2, 1, 1, 1, &q, k, v, scores, lse, &out}, &moves);
  return moves;
}

// The scores, a million, are rounded by about 0.2 in float32. Kills a bound of first order, which says that nothing
// moves beside a weight of 0 or 1, and one that says that anything may.
TEST(OracleRounding, KeysAsNearAsTheRoundingOfTheirScoresMoveTheRow) {
  EXPECT_GT(moves_with(0), 0.2);  // of the 1 to either value
  EXPECT_GT(moves_with(1), 0.1);
  EXPECT_LT(moves_with(8), 2e-3);  // 2 * exp(-8) and a little
  EXPECT_LT(moves_with(40), 1e-3);
  EXPECT_GT(moves_with(1e9), 1e-4);  // the values are rounded too: 1000 in float32
}

// Kills a row that is not known, as when x holds NaN or infinity, taken for one that may be anything.
TEST(OracleRounding, WhatIsNotKnownWidensNothing) {
  const std::vector<double> expected{1, 2}, got{1, 2.5};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(oracle::compare(expected, got, 1, {0.1, 0}, std::vector<double>{0, kInfinity}));
  EXPECT_FALSE(oracle::compare(expected, got, 1, {0.1, 0}, std::vector<double>{0, std::nan("")}));
  EXPECT_FALSE(oracle::compare(expected, got, 1, {0.1, 0}, std::vector<double>{1, 0}));  // its own row only
  EXPECT_FALSE(oracle::compare(expected, got, 1, {0.1, 0}, std::vector<double>{1}));     // not that of all rows
  EXPECT_TRUE(oracle::compare(expected, got, 1, {0.1, 0}, std::vector<double>{0, 0.17}));
  EXPECT_FALSE(oracle::compare(expected, got, 1, {0.1, 0}, std::vector<double>{0, 0.16}));
  EXPECT_EQ((oracle::JudgedRows{{}, {0.5, std::nan(""), kInfinity, 2, 1}}.largest_rounding()), 2);
}

// Variant 1's error may happen to be tiny. Kills an allowance that is made of it alone, and one that leaves it out.
TEST(OracleRounding, TwoVariantsMayDifferByWhatRoundingMakesOfARow) {
  EXPECT_EQ(oracle::tolerance_between(1e-9, kEpsilon<float>, 1e-6).absolute, 4e-6);
  EXPECT_EQ(oracle::tolerance_between(1e-5, kEpsilon<float>, 1e-6).absolute, 4e-5);
}

}  // namespace
}  // namespace ennead
