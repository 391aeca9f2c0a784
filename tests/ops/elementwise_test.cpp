// SPDX-License-Identifier: Apache-2.0
// Scaling, adding, masking, softmax and dropout.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ennead/ops.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead {
namespace {

using test::refuses;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Elementwise, ScaleAndAdd) {
  const Context context = test::poisoned_context();
  const auto x = test::from_doubles<double>(context, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(test::close({3, 6, 9, 12, 15, 18}, x * 3.0, {}));
  EXPECT_TRUE(test::close({0.5, 1, 1.5, 2, 2.5, 3}, x / 2.0, {}));
  const auto row = test::from_doubles<double>(context, {3}, {10, 20, 30});
  EXPECT_TRUE(test::close({11, 22, 33, 14, 25, 36}, add(x, row), {}));
  const auto column = test::from_doubles<double>(context, {2, 1}, {10, 20});
  EXPECT_TRUE(test::close({11, 12, 13, 24, 25, 26}, add(x, column), {}));
  EXPECT_TRUE(refuses([&] { add(row, x); }, {"[3]", "[2, 3]"}));
  EXPECT_TRUE(refuses([&] { add(x, test::from_doubles<double>(context, {2}, {1, 2})); }, {"[2, 3]", "[2]"}));
}

// Mutant: the mask inverted; broadcast along the wrong axis.
TEST(Elementwise, MaskedFill) {
  const Context context = test::poisoned_context();
  auto x = test::from_doubles<float>(context, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  masked_fill_(x, causal_mask(context, 2), -kInfinity);
  EXPECT_TRUE(test::close({1, -kInfinity, 3, 4, 5, -kInfinity, 7, 8}, x, {}));
  auto y = test::from_doubles<float>(context, {2, 2}, {1, 2, 3, 4});
  const bool column[] = {true, false};
  masked_fill_(y, Tensor<bool>::from(context, {2, 1}, column), 9);
  EXPECT_TRUE(test::close({9, 9, 3, 4}, y, {}));
  EXPECT_TRUE(refuses([&] { masked_fill_(y, causal_mask(context, 3), 0); }, {"[2, 2]", "[3, 3]"}));
}

TEST(Elementwise, CausalMaskBlocksTheFuture) {
  const Context context = test::poisoned_context();
  const auto mask = causal_mask(context, 5);
  test::for_each_index({5, 5}, [&](const Dims& at) { EXPECT_EQ(test::element(mask, at), at[1] > at[0]); });
  EXPECT_EQ(to_string(causal_mask(context, 0).sizes()), "[0, 0]");
}

template <class T>
std::vector<double> brute_softmax(const Tensor<T>& x) {
  std::vector<double> y = test::to_doubles(x);
  const auto n = static_cast<std::size_t>(x.size(-1));
  for (std::size_t row = 0; row < y.size() / n; ++row) {
    double largest = -kInfinity, sum = 0;
    for (std::size_t j = 0; j < n; ++j) largest = y[row * n + j] > largest ? y[row * n + j] : largest;
    for (std::size_t j = 0; j < n; ++j) sum += y[row * n + j] = std::exp(y[row * n + j] - largest);
    for (std::size_t j = 0; j < n; ++j) y[row * n + j] = largest == -kInfinity ? 0 : y[row * n + j] / sum;
  }
  return y;
}

// K1, K9. Mutants: no maximum subtracted; a floor on the maximum (-1e4); the last odd columns
// left out of the sum; an empty row divides 0 by 0.
template <class T>
void softmax_rows() {
  test::Random random(5);
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    for (const std::int64_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 1025}) {
      const double shifts[] = {0, -2e4, 1e30, -1e30};
      const double blocks[] = {0, 0.3, 0.9, 1};
      for (int kind = 0; kind < 4; ++kind) {
        auto x = test::with_layout(test::random_tensor<T>(context, {2, 3, n}, random), test::kLayouts[kind]);
        test::for_each_index(x.sizes(), [&](const Dims& at) {
          T& element = test::element(x, at);
          element = static_cast<T>(4 * static_cast<double>(element) + shifts[(at[1] + kind) % 4]);
          if (random.coin(blocks[(at[0] + kind) % 4])) element = static_cast<T>(-kInfinity);
        });
        const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
        ASSERT_TRUE(test::close(brute_softmax(x), softmax(x), {16 * epsilon, 0})) << n << " " << kind;
      }
    }
  });
}
TEST(Softmax, RowsFloat) { softmax_rows<float>(); }
TEST(Softmax, RowsDouble) { softmax_rows<double>(); }

TEST(Softmax, SpecialRows) {
  test::for_each_isa([&](Isa isa) {
    const Context context = test::poisoned_context({.isa = isa});
    const auto row = [&](const std::vector<double>& values) {
      return softmax(test::from_doubles<float>(context, {1, static_cast<std::int64_t>(values.size())}, values));
    };
    EXPECT_TRUE(test::close({0, 0, 0}, row({-kInfinity, -kInfinity, -kInfinity}), {}));  // no allowed key
    EXPECT_TRUE(test::close({kNaN, kNaN, kNaN}, row({0, kNaN, 1}), {}));                 // NaN propagates
    EXPECT_TRUE(test::close({0.25, 0.25, 0.25, 0.25}, row({-2e4, -2e4, -2e4, -2e4}), {1e-7, 0}));
    EXPECT_TRUE(test::close({0, 1, 0}, row({-1e30, 1e30, -kInfinity}), {}));
    // Rows beside a NaN row are not touched by it.
    const auto two = softmax(test::from_doubles<float>(context, {2, 2}, {kNaN, 0, 3, 3}));
    EXPECT_TRUE(test::close({kNaN, kNaN, 0.5, 0.5}, two, {1e-7, 0}));
  });
}

// K12. The draw depends on (seed, batch, head, query, key) alone. Mutants: counted by element
// number (then a head on its own draws otherwise); the same draw in every batch item.
TEST(Dropout, SplitsDrawAlike) {
  const Context context = test::poisoned_context({.threads = 3, .seed = 42});
  const auto x = Tensor<float>::full(context, {2, 4, 5, 7}, 1);
  const auto all = dropout(x, {.p = 0.4, .training = true});
  for (int head = 0; head < 4; ++head) {
    const auto alone = dropout(select(x, 1, head), {.p = 0.4, .training = true, .first_head = head});
    EXPECT_TRUE(test::same_bits(contiguous(select(all, 1, head)), alone)) << head;
  }
  const auto shorter = dropout(narrow(x, 3, 0, 3), {.p = 0.4, .training = true});
  EXPECT_TRUE(test::same_bits(contiguous(narrow(all, 3, 0, 3)), shorter));
  EXPECT_FALSE(test::same_bits(contiguous(select(all, 0, 0)), contiguous(select(all, 0, 1))));
  EXPECT_FALSE(test::same_bits(contiguous(select(all, 1, 0)), contiguous(select(all, 1, 1))));
  EXPECT_FALSE(test::same_bits(contiguous(select(all, 2, 0)), contiguous(select(all, 2, 1))));
}

// B75. Kept entries are scaled by 1 / (1 - p), so the mean over seeds is the input.
// Mutants: no scaling; p and 1 - p swapped.
TEST(Dropout, StatisticsOverSeeds) {
  const Context context = test::poisoned_context({.threads = 1});
  constexpr int kSeeds = 1000;
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    const auto x = Tensor<double>::full(context, {1, 1, 4, 4}, 1);
    std::vector<double> sum(16, 0.0);
    for (int seed = 0; seed < kSeeds; ++seed) {
      context.set_seed(static_cast<std::uint64_t>(seed));
      const auto y = test::to_doubles(dropout(x, {.p = p, .training = true}));
      for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_TRUE(y[i] == 0 || std::abs(y[i] - 1 / (1 - p)) < 1e-15);
        sum[i] += y[i];
      }
    }
    // Five standard deviations of the mean of one entry.
    const double deviation = 5 * std::sqrt(p / (1 - p) / kSeeds);
    for (const double s : sum) EXPECT_NEAR(s / kSeeds, 1, deviation) << p;
  }
}

TEST(Dropout, EdgesAndRefusals) {
  const Context context = test::poisoned_context();
  const auto x = Tensor<float>::full(context, {1, 2, 3}, 2);
  EXPECT_TRUE(test::same_bits(x, dropout(x, {.p = 0.5, .training = false})));
  EXPECT_TRUE(test::same_bits(x, dropout(x, {.p = 0, .training = true})));
  EXPECT_TRUE(test::close(std::vector<double>(6, 0.0), dropout(x, {.p = 1, .training = true}), {}));
  for (const double p : {-0.1, 1.1, kNaN}) EXPECT_TRUE(refuses([&] { dropout(x, {.p = p, .training = true}); }));
  EXPECT_TRUE(refuses([&] { dropout(Tensor<float>::full(context, {3}, 1), {.p = 0.5, .training = true}); }, {"[3]"}));
}

}  // namespace
}  // namespace ennead
