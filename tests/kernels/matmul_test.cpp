// SPDX-License-Identifier: Apache-2.0
// kernels: batched products of any strides, on every instruction set, against float64 loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "support/contexts.h"
#include "support/kernel_operands.h"

namespace ennead::test {
namespace {

struct Shape {
  std::int64_t p, q, rows, columns, depth;
};

/// Multiplies some rows of every matrix by powers of two far from 1. A row that is repeated may be meant twice.
template <class T>
void scale_some_rows(Operand<T, 4>& operand, Random& random) {
  const View<T, 4> view = operand.mutable_view();
  for (std::int64_t p = 0; p < view.size(0); ++p) {
    for (std::int64_t q = 0; q < view.size(1); ++q) {
      for (std::int64_t i = 0; i < view.size(2); ++i) {
        if (!random.coin(0.2)) continue;
        const int power = random.coin() ? -70 : 52;
        for (std::int64_t j = 0; j < view.size(3); ++j) {
          view(p, q, i, j) = static_cast<T>(std::ldexp(random.normal(), power));
        }
      }
    }
  }
}

template <class T>
testing::AssertionResult matmul_is_right(Isa isa, Executor& executor, Shape shape, Random& random,
                                         bool any_size = false) {
  const auto& kernels = kernels::kernels_for<T>(isa);
  const auto [p_size, q_size, m, n, k] = shape;
  Operand<T, 4> a({p_size, q_size, m, k}, random, Layout::any), b({p_size, q_size, k, n}, random, Layout::any);
  if (any_size) {
    scale_some_rows(a, random);
    if (random.coin()) scale_some_rows(b, random);
  }
  Operand<T, 4> c({p_size, q_size, m, n}, random);
  c.poison();
  const Sum<T> alpha = random.coin() ? Sum<T>(1) : static_cast<Sum<T>>(random.normal());

  const kernels::MatmulArgs<T> args{a.view(), b.view(), c.mutable_view(), alpha};
  AlignedBuffer<std::byte> scratch(kernels.matmul_scratch(args, executor.num_threads()));
  kernels.matmul(executor, args, scratch.data());

  for (std::int64_t p = 0; p < p_size; ++p) {
    for (std::int64_t q = 0; q < q_size; ++q) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = 0, scale = 0;
          for (std::int64_t l = 0; l < k; ++l) {
            const double product = static_cast<double>(alpha) * static_cast<double>(a.view()(p, q, i, l)) *
                                   static_cast<double>(b.view()(p, q, l, j));
            sum += product;
            scale += std::abs(product);
          }
          const double got = static_cast<double>(c.view()(p, q, i, j));
          if (!(std::abs(sum - got) <= rounding_bound<T>(scale, k + 2))) {
            return testing::AssertionFailure() << "c[" << p << ", " << q << ", " << i << ", " << j << "] of " << m
                                               << " x " << n << " x " << k << ": expected " << sum << ", got " << got;
          }
        }
      }
    }
  }
  if (!c.intact()) return testing::AssertionFailure() << "wrote outside c, " << m << " x " << n << " x " << k;
  if (!scratch.intact()) return testing::AssertionFailure() << "wrote outside its scratch";
  return testing::AssertionSuccess();
}

// Mutants: a batch stride of another operand; a transposed right operand packed as a straight one; c
// overwritten where it should be added to; alpha forgotten, or applied to what c held.
template <class T>
void random_shapes(int threads) {
  const auto executor = make_thread_pool(threads);
  Random random(static_cast<std::uint64_t>(threads));
  for_each_isa([&](Isa isa) {
    for (int i = 0; i < 400; ++i) {
      const Shape shape{random.integer(0, 3), random.integer(1, 3), random.integer(0, 40), random.integer(0, 70),
                        random.integer(0, 70)};
      ASSERT_TRUE(matmul_is_right<T>(isa, *executor, shape, random)) << "round " << i;
    }
  });
}
TEST(KernelsMatmul, RandomShapesFloat) { random_shapes<float>(1); }
TEST(KernelsMatmul, RandomShapesDouble) { random_shapes<double>(1); }
TEST(KernelsMatmul, RandomShapesThreads) { random_shapes<float>(3); }

// Mutants: what c held added to twice where a row is done again; operands out of the ordinary taken for ordinary ones,
// in the first or another panel, by one thread or several.
TEST(KernelsMatmul, RowsOfAnySize) {
  Random random(6);
  for (const int threads : {1, 3}) {
    const auto executor = make_thread_pool(threads);
    for_each_isa([&](Isa isa) {
      for (int i = 0; i < 60; ++i) {
        const Shape shape{random.integer(1, 5), random.integer(1, 3), random.integer(1, 40), random.integer(1, 70),
                          random.integer(1, 40)};
        ASSERT_TRUE(matmul_is_right<float>(isa, *executor, shape, random, true)) << "round " << i;
      }
    });
  }
}

// The right operand times alpha is what is multiplied. Mutants: alpha left out when it is looked at; one of its panels
// looked at for all.
TEST(KernelsMatmul, InfiniteColumns) {
  Random random(7);
  for (const int threads : {1, 3}) {
    const auto executor = make_thread_pool(threads);
    for_each_isa([&](Isa isa) {
      for (const std::int64_t column : {3, 40, 69}) {
        for (const float alpha : {1.0F, 0x1p100F}) {
          Operand<float, 4> a({1, 1, 5, 9}, random), b({1, 1, 9, 70}, random), c({1, 1, 5, 70}, random);
          for (std::int64_t l = 0; l < 9; ++l) {
            for (std::int64_t i = 0; i < 5; ++i) a.mutable_view()(0, 0, i, l) = 1;
            for (std::int64_t j = 0; j < 70; ++j) b.mutable_view()(0, 0, l, j) = 1;
          }
          const float infinity = std::numeric_limits<float>::infinity();
          b.mutable_view()(0, 0, 4, column) = alpha == 1 ? infinity : 0x1p40F;
          const kernels::MatmulArgs<float> args{a.view(), b.view(), c.mutable_view(), alpha};
          const auto& kernels = kernels::kernels_for<float>(isa);
          AlignedBuffer<std::byte> scratch(kernels.matmul_scratch(args, threads));
          kernels.matmul(*executor, args, scratch.data());
          for (std::int64_t i = 0; i < 5; ++i) {
            for (std::int64_t j = 0; j < 70; ++j) {
              ASSERT_EQ(c.view()(0, 0, i, j), j == column ? infinity : 9 * alpha) << j << " times " << alpha;
            }
          }
        }
      }
    });
  }
}

// Mutants: a second block of rows or of depth starts at the wrong offset, or from c again.
TEST(KernelsMatmul, ManyBlocks) {
  Random random(4);
  for (const int threads : {1, 2}) {
    const auto executor = make_thread_pool(threads);
    for_each_isa([&](Isa isa) {
      for (const Shape shape : {Shape{1, 1, 1300, 40, 5}, Shape{1, 2, 14, 33, 2100}, Shape{9, 1, 310, 7, 600}}) {
        ASSERT_TRUE(matmul_is_right<float>(isa, *executor, shape, random));
      }
    });
  }
}

/// c[i, j] of contiguous a and b and alpha, in float64; how far off c may be.
struct Expected {
  double value, bound;
};
Expected expected_element(const std::vector<float>& a, const std::vector<float>& b, std::int64_t columns,
                          std::int64_t depth, double alpha, std::int64_t i, std::int64_t j) {
  double sum = 0, scale = 0;
  for (std::int64_t l = 0; l < depth; ++l) {
    const double product = alpha * static_cast<double>(a[static_cast<std::size_t>(i * depth + l)]) *
                           static_cast<double>(b[static_cast<std::size_t>(l * columns + j)]);
    sum += product;
    scale += std::abs(product);
  }
  return {sum, rounding_bound<float>(scale, depth + 2)};
}

// Mutants: whether b may be split is asked without alpha; a row that may not be split is judged by the first chunk of
// its depth alone, or takes others with it.
TEST(KernelsMatmul, WildValues) {
  constexpr std::int64_t kRows = 70, kColumns = 37;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random(6);
  const auto executor = make_serial_executor();
  for (const std::int64_t depth : {3, 1100}) {
    for (const auto& factors : {std::pair{1.0F, 1.0F}, {1e-36F, 1e10F}, {1e30F, 1e-30F}}) {
      const float alpha = factors.first, scale = factors.second;
      std::vector<float> a(static_cast<std::size_t>(kRows * depth)), b(static_cast<std::size_t>(depth * kColumns));
      for (float& each : a) each = scale * static_cast<float>(random.normal());
      for (float& each : b) each = static_cast<float>(random.normal());
      const auto last_of_row = [&](std::int64_t row) -> float& {
        return a[static_cast<std::size_t>((row + 1) * depth - 1)];
      };
      last_of_row(2) *= 1e20F;
      last_of_row(33) = kInfinity;
      last_of_row(69) = std::numeric_limits<float>::quiet_NaN();
      for (std::int64_t l = 0; l < depth; ++l) a[static_cast<std::size_t>(40 * depth + l)] *= 1e-30F;
      for_each_isa([&](Isa isa) {
        const auto& kernels = kernels::kernels_for<float>(isa);
        std::vector<float> c(kRows * kColumns, 1.5F);
        const kernels::MatmulArgs<float> args{View<const float, 4>::contiguous(a.data(), {1, 1, kRows, depth}),
                                              View<const float, 4>::contiguous(b.data(), {1, 1, depth, kColumns}),
                                              View<float, 4>::contiguous(c.data(), {1, 1, kRows, kColumns}), alpha};
        AlignedBuffer<std::byte> scratch(kernels.matmul_scratch(args, 1));
        kernels.matmul(*executor, args, scratch.data());
        for (std::int64_t i = 0; i < kRows; ++i) {
          for (std::int64_t j = 0; j < kColumns; ++j) {
            const double got = static_cast<double>(c[static_cast<std::size_t>(i * kColumns + j)]);
            const auto [value, bound] = expected_element(a, b, kColumns, depth, static_cast<double>(alpha), i, j);
            const bool right = std::isfinite(value) ? std::abs(value - got) <= bound
                               : std::isnan(value)  ? std::isnan(got)
                                                    : value == got;
            ASSERT_TRUE(right) << name(isa) << " depth " << depth << " alpha " << alpha << " c[" << i << ", " << j
                               << "]: expected " << value << ", got " << got;
          }
        }
      });
    }
  }
}

// Mutant: how the work is shared between threads changes the order of a sum.
TEST(KernelsMatmul, SameBitsForAnyThreads) {
  Random random(5);
  const Operand<float, 4> a({2, 3, 150, 200}, random), b({2, 3, 200, 90}, random);
  for_each_isa([&](Isa isa) {
    const auto& kernels = kernels::kernels_for<float>(isa);
    std::vector<float> first;
    for (const int threads : {1, 2, 7}) {
      const auto executor = make_thread_pool(threads);
      std::vector<float> c(2 * 3 * 150 * 90);
      const kernels::MatmulArgs<float> args{a.view(), b.view(), View<float, 4>::contiguous(c.data(), {2, 3, 150, 90})};
      AlignedBuffer<std::byte> scratch(kernels.matmul_scratch(args, threads));
      kernels.matmul(*executor, args, scratch.data());
      if (first.empty()) first = c;
      EXPECT_EQ(first, c);
    }
  });
}

}  // namespace
}  // namespace ennead::test
