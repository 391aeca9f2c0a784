// SPDX-License-Identifier: Apache-2.0
// kernels: batched products of any strides, on every instruction set, against float64 loops.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/kernels.h"
#include "support/contexts.h"
#include "support/kernel_operands.h"

namespace ennead::test {
namespace {

struct Shape {
  std::int64_t p, q, rows, columns, depth;
};

template <class T>
testing::AssertionResult matmul_is_right(Isa isa, Executor& executor, Shape shape, bool accumulate, Random& random) {
  const auto& kernels = kernels::kernels_for<T>(isa);
  const auto [p_size, q_size, m, n, k] = shape;
  const Operand<T, 4> a({p_size, q_size, m, k}, random, Layout::any), b({p_size, q_size, k, n}, random, Layout::any);
  Operand<T, 4> c({p_size, q_size, m, n}, random);
  const std::vector<T> before = c.values();
  if (!accumulate) c.poison();
  const T alpha = random.coin() ? T(1) : static_cast<T>(random.normal());

  const kernels::MatmulArgs<T> args{a.view(), b.view(), c.mutable_view(), alpha, accumulate};
  AlignedBuffer<std::byte> scratch(kernels.matmul_scratch(args, executor.num_threads()));
  kernels.matmul(executor, args, scratch.data());

  std::size_t at = 0;
  for (std::int64_t p = 0; p < p_size; ++p) {
    for (std::int64_t q = 0; q < q_size; ++q) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j, ++at) {
          double sum = accumulate ? static_cast<double>(before[at]) : 0.0, scale = std::abs(sum);
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
      ASSERT_TRUE(matmul_is_right<T>(isa, *executor, shape, random.coin(), random)) << "round " << i;
    }
  });
}
TEST(KernelsMatmul, RandomShapesFloat) { random_shapes<float>(1); }
TEST(KernelsMatmul, RandomShapesDouble) { random_shapes<double>(1); }
TEST(KernelsMatmul, RandomShapesThreads) { random_shapes<float>(3); }

// Mutants: a second block of rows or of depth starts at the wrong offset, or from c again.
TEST(KernelsMatmul, ManyBlocks) {
  Random random(4);
  for (const int threads : {1, 2}) {
    const auto executor = make_thread_pool(threads);
    for_each_isa([&](Isa isa) {
      for (const Shape shape : {Shape{1, 1, 1300, 40, 5}, Shape{1, 2, 14, 33, 2100}, Shape{9, 1, 310, 7, 600}}) {
        ASSERT_TRUE(matmul_is_right<float>(isa, *executor, shape, random.coin(), random));
      }
    });
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
