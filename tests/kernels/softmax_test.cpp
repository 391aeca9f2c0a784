// SPDX-License-Identifier: Apache-2.0
// kernels: softmax of rows, on every instruction set, against float64 loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernels.h"
#include "support/contexts.h"
#include "support/kernel_operands.h"

namespace ennead::test {
namespace {

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();

std::vector<double> softmax_of(const std::vector<double>& x) {
  double max = -kInf<double>, sum = 0;
  for (const double value : x) max = std::max(max, value);
  std::vector<double> y(x.size(), 0.0);
  if (max == -kInf<double>) return y;
  for (std::size_t j = 0; j < x.size(); ++j) sum += y[j] = std::exp(x[j] - max);
  for (double& value : y) value /= sum;
  return y;
}

template <class T>
void expect_softmax(Isa isa, std::int64_t rows, std::int64_t n, double spread, bool in_place, Random& random) {
  const auto executor = make_thread_pool(2);
  Operand<T, 2> x({rows, n}, random), y({rows, n}, random);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T& element = x.mutable_view()(i, j);
      element *= static_cast<T>(spread);
      if (i % 3 == 1 && random.coin(0.3)) element = -kInf<T>;
    }
  }
  std::vector<std::vector<double>> expected;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<double> row;
    for (std::int64_t j = 0; j < n; ++j) row.push_back(static_cast<double>(x.view()(i, j)));
    expected.push_back(softmax_of(row));
  }
  y.poison();
  Operand<T, 2>& out = in_place ? x : y;
  kernels::kernels_for<T>(isa).softmax(*executor, {x.view(), out.mutable_view()});
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double want = expected[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
      const double got = static_cast<double>(out.view()(i, j));
      // Half an ulp of the difference to the maximum, in which weights above 1e-38 reach 90.
      ASSERT_TRUE(std::abs(want - got) <= want * eps * (64 + static_cast<double>(n) / 8) + 1e-37)
          << n << " columns, row " << i << ", column " << j << ": expected " << want << ", got " << got;
    }
  }
  EXPECT_TRUE(out.intact());
}

// Mutants: the padding of the last vector joins the maximum or the sum; a maximum of whole vectors only.
template <class T>
void every_length() {
  Random random(1);
  for_each_isa([&](Isa isa) {
    for (std::int64_t n = 0; n <= 70; ++n) {
      for (int layout = 0; layout < 3; ++layout) {
        expect_softmax<T>(isa, random.integer(0, 7), n, 3.0, random.coin(), random);
      }
    }
    expect_softmax<T>(isa, 300, 1025, 3.0, false, random);
  });
}
TEST(KernelsSoftmax, EveryLengthFloat) { every_length<float>(); }
TEST(KernelsSoftmax, EveryLengthDouble) { every_length<double>(); }

// Mutant: exp without subtracting the maximum.
TEST(KernelsSoftmax, WildScores) {
  Random random(2);
  for_each_isa([&](Isa isa) {
    for (const double spread : {1e-30, 0.3, 10.0, 1e30}) {
      expect_softmax<float>(isa, 9, 37, spread, false, random);
      expect_softmax<double>(isa, 9, 37, spread, true, random);
    }
  });
}

template <class T>
std::vector<T> softmax_row(Isa isa, std::vector<T> row, std::int64_t stride) {
  const auto executor = make_serial_executor();
  const auto n = static_cast<std::int64_t>(row.size());
  std::vector<T> memory(row.size() * static_cast<std::size_t>(stride));
  for (std::int64_t j = 0; j < n; ++j) memory[static_cast<std::size_t>(j * stride)] = row[static_cast<std::size_t>(j)];
  const View<T, 2> view{memory.data(), {1, n}, {0, stride}};
  kernels::kernels_for<T>(isa).softmax(*executor, {view, view});
  for (std::int64_t j = 0; j < n; ++j) row[static_cast<std::size_t>(j)] = memory[static_cast<std::size_t>(j * stride)];
  return row;
}

// Mutants: NaN lost in a maximum or to the mask of tiny results; a row of -inf divided by its sum of 0;
// an infinite score giving finite weights.
template <class T>
void special_rows() {
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = kInf<T>;
  for_each_isa([&](Isa isa) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::size_t n : {1u, 2u, 5u, 16u, 33u, 100u}) {
        EXPECT_EQ(softmax_row<T>(isa, std::vector<T>(n, -inf), stride), std::vector<T>(n, T(0)));
        for (const T value : softmax_row<T>(isa, std::vector<T>(n, T(1e30)), stride)) {
          EXPECT_NEAR(static_cast<double>(value), 1.0 / static_cast<double>(n), 1e-7);
        }
        for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
          for (const T fill : {T(1), -inf}) {
            std::vector<T> row(n, fill);
            row[at] = nan;
            for (const T value : softmax_row<T>(isa, row, stride)) EXPECT_TRUE(std::isnan(value));
            row[at] = inf;
            EXPECT_TRUE(std::isnan(softmax_row<T>(isa, row, stride)[at]));
            row[at] = T(-3);
            if (fill == -inf) {
              std::vector<T> one_hot(n, T(0));
              one_hot[at] = T(1);
              EXPECT_EQ(softmax_row<T>(isa, row, stride), one_hot);
            }
          }
        }
      }
    }
  });
}
TEST(KernelsSoftmax, SpecialRowsFloat) { special_rows<float>(); }
TEST(KernelsSoftmax, SpecialRowsDouble) { special_rows<double>(); }

}  // namespace
}  // namespace ennead::test
