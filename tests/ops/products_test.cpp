// SPDX-License-Identifier: Apache-2.0
// Linear and matmul against plain loops in float64.
#include <gtest/gtest.h>

#include "ennead/ops.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead {
namespace {

using test::refuses;

const std::vector<std::int64_t> kSizes{1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 65, 97};

template <class T>
std::vector<double> brute_linear(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  const auto xs = test::to_doubles(x), ws = test::to_doubles(weight), bs = test::to_doubles(bias);
  const auto in = static_cast<std::size_t>(weight.size(1)), out = static_cast<std::size_t>(weight.size(0));
  std::vector<double> y;
  for (std::size_t row = 0; row < xs.size() / in; ++row) {
    for (std::size_t n = 0; n < out; ++n) {
      double sum = bs.empty() ? 0 : bs[n];
      for (std::size_t k = 0; k < in; ++k) sum += xs[row * in + k] * ws[n * in + k];
      y.push_back(sum);
    }
  }
  return y;
}

template <class T>
void random_linears(std::uint64_t seed) {
  test::Random random(seed);
  test::for_each_isa([&](Isa isa) {
    for (int round = 0; round < 60; ++round) {
      const Context context = test::poisoned_context({.threads = static_cast<int>(random.integer(1, 3)), .isa = isa});
      const std::int64_t in = random.pick(kSizes), out = random.pick(kSizes);
      Dims x_sizes;
      const auto leading = random.integer(0, 2);
      for (std::int64_t axis = 0; axis < leading; ++axis) x_sizes.push_back(random.integer(1, 9));
      x_sizes.push_back(in);
      const auto layout = [&](const Tensor<T>& t) {
        return test::with_layout(t, test::kLayouts[random.integer(0, 3)]);
      };
      const auto x = layout(test::random_tensor<T>(context, x_sizes, random));
      const auto weight = layout(test::random_tensor<T>(context, {out, in}, random));
      const auto bias = random.coin() ? layout(test::random_tensor<T>(context, {out}, random)) : Tensor<T>();
      const Tensor<T> y = Linear<T>(weight, bias)(x);
      SCOPED_TRACE(to_string(x_sizes) + " to " + std::to_string(out));
      x_sizes[x_sizes.rank() - 1] = out;
      ASSERT_EQ(to_string(y.sizes()), to_string(x_sizes));
      const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
      ASSERT_TRUE(test::close(brute_linear(x, weight, bias), y, {4 * epsilon * static_cast<double>(in + 4), 0}));
    }
  });
}

// Mutants: bias of the last tile left out; the last odd k dropped; x read by rows though its
// strides say columns.
TEST(Linear, RandomShapesFloat) { random_linears<float>(1); }
TEST(Linear, RandomShapesDouble) { random_linears<double>(2); }

// Mutant: the kernels of x's instruction set read weights packed for another.
TEST(Linear, WeightsKeepTheirInstructionSet) {
  test::Random random(9);
  test::for_each_isa([&](Isa weights_isa) {
    const Context theirs = test::poisoned_context({.isa = weights_isa});
    const auto weight = test::random_tensor<float>(theirs, {37, 29}, random);
    const Linear<float> linear(weight);
    test::for_each_isa([&](Isa isa) {
      const auto x = test::random_tensor<float>(test::poisoned_context({.isa = isa}), {19, 29}, random);
      EXPECT_TRUE(test::close(brute_linear(x, weight, {}), linear(x), {2e-5, 0}));
    });
  });
}

TEST(Linear, SizesOfNothing) {
  const Context context = test::poisoned_context();
  const auto bias = Tensor<float>::full(context, {2}, 3.0F);
  const Linear<float> from_nothing(Tensor<float>::full(context, {2, 0}, 0), bias);
  EXPECT_TRUE(test::close({3, 3, 3, 3}, from_nothing(Tensor<float>::full(context, {2, 0}, 0)), {}));
  const Linear<float> linear(Tensor<float>::full(context, {2, 4}, 1), bias);
  EXPECT_EQ(to_string(linear(Tensor<float>::full(context, {3, 0, 4}, 0)).sizes()), "[3, 0, 2]");
}

TEST(Linear, Refuses) {
  const Context context = test::poisoned_context();
  const auto weight = Tensor<float>::full(context, {2, 4}, 1);
  EXPECT_TRUE(refuses([&] { Linear<float>{weight, Tensor<float>::full(context, {3}, 1)}; }, {"[2]", "[3]"}));
  EXPECT_TRUE(refuses([&] { Linear<float>{Tensor<float>::full(context, {2}, 1)}; }, {"[out, in]", "[2]"}));
  EXPECT_TRUE(refuses([&] { Linear<float>{weight}(Tensor<float>::full(context, {5, 3}, 1)); }, {"4", "[5, 3]"}));
  EXPECT_TRUE(refuses([&] { Linear<float>()(weight); }));
}

template <class T>
std::vector<double> brute_matmul(const Tensor<T>& a, const Tensor<T>& b, const Dims& sizes) {
  std::vector<double> c;
  test::for_each_index(sizes, [&](const Dims& at) {
    const auto index = [&](const Tensor<T>& x, std::int64_t row, std::int64_t column) {
      Dims from = x.sizes();
      for (int axis = 0; axis < x.rank() - 2; ++axis) {
        from[axis] = x.size(axis) == 1 ? 0 : at[axis + sizes.rank() - x.rank()];
      }
      from[x.rank() - 2] = row;
      from[x.rank() - 1] = column;
      return static_cast<double>(test::element(x, from));
    };
    double sum = 0;
    for (std::int64_t k = 0; k < a.size(-1); ++k) {
      sum += index(a, at[sizes.rank() - 2], k) * index(b, k, at[sizes.rank() - 1]);
    }
    c.push_back(sum);
  });
  return c;
}

template <class T>
void random_matmuls(std::uint64_t seed) {
  test::Random random(seed);
  test::for_each_isa([&](Isa isa) {
    for (int round = 0; round < 80; ++round) {
      const Context context = test::poisoned_context({.threads = static_cast<int>(random.integer(1, 3)), .isa = isa});
      const std::int64_t m = random.pick(kSizes), k = random.pick(kSizes), n = random.pick(kSizes);
      const auto rank = random.integer(0, 3);
      Dims sizes, a_sizes, b_sizes;
      for (std::int64_t axis = 0; axis < rank; ++axis) {
        sizes.push_back(random.integer(1, 3));
        const auto which = random.integer(0, 3);
        a_sizes.push_back(which == 0 ? 1 : sizes[static_cast<int>(axis)]);
        b_sizes.push_back(which == 1 ? 1 : sizes[static_cast<int>(axis)]);
      }
      if (random.coin(0.2)) {
        sizes = a_sizes;
        b_sizes = {};
      }
      for (const std::int64_t size : {m, n}) sizes.push_back(size);
      for (const std::int64_t size : {m, k}) a_sizes.push_back(size);
      for (const std::int64_t size : {k, n}) b_sizes.push_back(size);
      const auto layout = [&](const Tensor<T>& t) {
        return test::with_layout(t, test::kLayouts[random.integer(0, 3)]);
      };
      const auto a = layout(test::random_tensor<T>(context, a_sizes, random));
      const auto b = layout(test::random_tensor<T>(context, b_sizes, random));
      const auto c = matmul(a, b);
      SCOPED_TRACE(to_string(a_sizes) + " times " + to_string(b_sizes));
      ASSERT_EQ(to_string(c.sizes()), to_string(sizes));
      const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
      ASSERT_TRUE(test::close(brute_matmul(a, b, sizes), c, {4 * epsilon * static_cast<double>(k + 4), 0}));
    }
  });
}

// Mutants: batch axes merged that are broadcast in one operand; the third leading axis ignored.
TEST(Matmul, RandomShapesFloat) { random_matmuls<float>(3); }
TEST(Matmul, RandomShapesDouble) { random_matmuls<double>(4); }

TEST(Matmul, NoColumnsToSum) {
  const Context context = test::poisoned_context();
  const auto c = matmul(Tensor<float>::full(context, {2, 3, 0}, 1), Tensor<float>::full(context, {2, 0, 2}, 1));
  EXPECT_TRUE(test::close(std::vector<double>(12, 0.0), c, {}));
}

TEST(Matmul, Refuses) {
  const Context context = test::poisoned_context();
  const auto make = [&](const Dims& sizes) { return Tensor<float>::full(context, sizes, 1); };
  EXPECT_TRUE(refuses([&] { matmul(make({2, 3}), make({4, 2})); }, {"[2, 3]", "[4, 2]"}));
  EXPECT_TRUE(refuses([&] { matmul(make({2, 2, 3}), make({3, 3, 2})); }, {"[2, 2, 3]", "[3, 3, 2]"}));
  EXPECT_TRUE(refuses([&] { matmul(make({3}), make({3, 2})); }, {"[3]"}));
}

}  // namespace
}  // namespace ennead
