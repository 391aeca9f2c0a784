// SPDX-License-Identifier: Apache-2.0
// kernels: y = x W^T + bias, on every instruction set, against float64 loops.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/kernels.h"
#include "support/contexts.h"
#include "support/kernel_operands.h"

namespace ennead::test {
namespace {

struct Shape {
  std::int64_t rows, columns, depth;
};

/// Runs one product with operands of any layout and says whether it was right and stayed in its bounds.
template <class T>
testing::AssertionResult linear_is_right(Isa isa, Executor& executor, Shape shape, bool bias, Random& random) {
  const auto& kernels = kernels::kernels_for<T>(isa);
  const auto [m, n, k] = shape;
  const Operand<T, 2> x({m, k}, random), w({n, k}, random);
  const Operand<T, 1> b({n}, random, Layout::contiguous);
  Operand<T, 2> y({m, n}, random);
  y.poison();

  AlignedBuffer<PackedByte> packed(kernels.packed_bytes(n, k));
  kernels.pack_weights(w.view(), packed.data());
  const kernels::LinearArgs<T> args{x.view(), packed.data(), bias ? b.view().data : nullptr, y.mutable_view()};
  AlignedBuffer<std::byte> scratch(kernels.linear_scratch(args, executor.num_threads()));
  kernels.linear(executor, args, scratch.data());

  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = bias ? static_cast<double>(b.view()(j)) : 0.0, scale = std::abs(sum);
      for (std::int64_t l = 0; l < k; ++l) {
        const double product = static_cast<double>(x.view()(i, l)) * static_cast<double>(w.view()(j, l));
        sum += product;
        scale += std::abs(product);
      }
      const double got = static_cast<double>(y.view()(i, j));
      if (!(std::abs(sum - got) <= rounding_bound<T>(scale, k))) {
        return testing::AssertionFailure() << "y[" << i << ", " << j << "] of " << m << " x " << n << " x " << k
                                           << ": expected " << sum << ", got " << got;
      }
    }
  }
  if (!y.intact()) return testing::AssertionFailure() << "wrote outside y, " << m << " x " << n << " x " << k;
  if (!packed.intact() || !scratch.intact()) return testing::AssertionFailure() << "wrote outside its scratch";
  return testing::AssertionSuccess();
}

/// y = x W^T of operands given; whether it stayed in its bounds.
testing::AssertionResult run_linear(Isa isa, Executor& executor, const Operand<float, 2>& x, const Operand<float, 2>& w,
                                    Operand<float, 2>& y) {
  const auto& kernels = kernels::kernels_for<float>(isa);
  y.poison();
  AlignedBuffer<PackedByte> packed(kernels.packed_bytes(w.view().size(0), w.view().size(1)));
  kernels.pack_weights(w.view(), packed.data());
  const kernels::LinearArgs<float> args{x.view(), packed.data(), nullptr, y.mutable_view()};
  AlignedBuffer<std::byte> scratch(kernels.linear_scratch(args, executor.num_threads()));
  kernels.linear(executor, args, scratch.data());
  if (y.intact() && packed.intact() && scratch.intact()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "wrote outside its memory";
}

// Mutants: a tile's last row or column dropped or stored twice; the narrow last panel read as a whole
// one; the bias of another panel; depth 0 leaving y unwritten.
template <class T>
void every_tile_edge() {
  const auto executor = make_serial_executor();
  Random random(1);
  for_each_isa([&](Isa isa) {
    for (std::int64_t m = 0; m <= 30; ++m) {
      for (const std::int64_t n : {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65}) {
        const std::int64_t k = random.integer(0, 9);
        ASSERT_TRUE(linear_is_right<T>(isa, *executor, {m, n, k}, random.coin(), random));
      }
    }
  });
}
TEST(KernelsLinear, EveryTileEdgeFloat) { every_tile_edge<float>(); }
TEST(KernelsLinear, EveryTileEdgeDouble) { every_tile_edge<double>(); }

// Mutants: a second block of rows or of depth starts from the bias again, or at the wrong offset.
TEST(KernelsLinear, ManyBlocks) {
  const auto pool = make_thread_pool(2);
  Random random(2);
  for_each_isa([&](Isa isa) {
    for (const Shape shape : {Shape{1500, 70, 5}, Shape{301, 33, 770}, Shape{13, 50, 2100}, Shape{2, 200, 2049}}) {
      ASSERT_TRUE(linear_is_right<float>(isa, *pool, shape, true, random));
      ASSERT_TRUE(linear_is_right<double>(isa, *pool, shape, false, random));
    }
  });
}

/// What a sum may lose beside its rounding when the parts of its operands, down to 2^-23 of them, are below the
/// smallest normal number, and what lies below 2^-133 of a packed weight.
double lost(std::int64_t terms, double most_x, double most_w) {
  return static_cast<double>(terms) * 0x1p-117 * (1 + std::min(most_x, 0x1p50) + most_w) +
         static_cast<double>(terms) * 0x1p-133 * most_x;
}

// Small numbers among large ones: the large ones meet zeros, so that what becomes of the small ones shows.
// Mutants: the bits of one part of a number, when it is below the smallest normal one, in another number.
TEST(KernelsLinear, SmallNumbersAmongLargeOnes) {
  constexpr std::int64_t kRows = 33, kColumns = 40, kDepth = 70;
  const auto executor = make_serial_executor();
  Random random(4);
  for_each_isa([&](Isa isa) {
    for (const int power : {-60, -90, -100, -110, -116, -120, -126, -135}) {
      Operand<float, 2> x({kRows, kDepth}, random), w({kColumns, kDepth}, random);
      for (std::int64_t l = 0; l < kDepth; ++l) {
        const bool large = l % 7 == 0;
        for (std::int64_t i = 0; i < kRows; ++i) x.mutable_view()(i, l) *= large ? 0.0F : 1.0F;
        for (std::int64_t j = 0; j < kColumns; ++j) {
          float& weight = w.mutable_view()(j, l);
          weight = large ? 0x1p-10F : std::ldexp(weight, power);
        }
      }
      Operand<float, 2> y({kRows, kColumns}, random);
      ASSERT_TRUE(run_linear(isa, *executor, x, w, y));
      for (std::int64_t i = 0; i < kRows; ++i) {
        for (std::int64_t j = 0; j < kColumns; ++j) {
          double sum = 0, scale = 0;
          for (std::int64_t l = 0; l < kDepth; ++l) {
            const double product = static_cast<double>(x.view()(i, l)) * static_cast<double>(w.view()(j, l));
            sum += product;
            scale += std::abs(product);
          }
          ASSERT_NEAR(static_cast<double>(y.view()(i, j)), sum,
                      rounding_bound<float>(scale, kDepth) + lost(kDepth, 4, 0x1p-10))
              << "2^" << power;
        }
      }
    }
  });
}

// Mutants: a row, or a weight, whose numbers are out of the ordinary taken for an ordinary one; a part of such a
// weight lost, in packing or when it is put together again.
TEST(KernelsLinear, RowsOfAnySize) {
  constexpr std::int64_t kRows = 20, kColumns = 37, kDepth = 45;
  const std::vector<int> powers{0, 0, 0, -49, 49, -60, 60, -100, 100, -112, -140};
  const auto executor = make_serial_executor();
  Random random(5);
  for_each_isa([&](Isa isa) {
    for (const bool weights_too : {false, true}) {
      Operand<float, 2> x({kRows, kDepth}, random), w({kColumns, kDepth}, random), y({kRows, kColumns}, random);
      std::vector<int> of_x(kRows), of_w(kColumns, 0);
      for (std::int64_t i = 0; i < kRows; ++i) {
        of_x[static_cast<std::size_t>(i)] = random.pick(powers);
        for (std::int64_t l = 0; l < kDepth; ++l) {
          x.mutable_view()(i, l) = std::ldexp(x.view()(i, l), of_x[static_cast<std::size_t>(i)]);
        }
      }
      for (std::int64_t j = 0; weights_too && j < kColumns; ++j) {
        of_w[static_cast<std::size_t>(j)] = random.pick(powers);
        for (std::int64_t l = 0; l < kDepth; ++l) {
          w.mutable_view()(j, l) = std::ldexp(w.view()(j, l), of_w[static_cast<std::size_t>(j)]);
        }
      }
      ASSERT_TRUE(run_linear(isa, *executor, x, w, y));
      for (std::int64_t i = 0; i < kRows; ++i) {
        for (std::int64_t j = 0; j < kColumns; ++j) {
          if (of_x[static_cast<std::size_t>(i)] + of_w[static_cast<std::size_t>(j)] > 110) continue;  // infinite
          double sum = 0, scale = 0;
          for (std::int64_t l = 0; l < kDepth; ++l) {
            const double product = static_cast<double>(x.view()(i, l)) * static_cast<double>(w.view()(j, l));
            sum += product;
            scale += std::abs(product);
          }
          ASSERT_NEAR(static_cast<double>(y.view()(i, j)), sum, rounding_bound<float>(scale, kDepth))
              << "2^" << of_x[static_cast<std::size_t>(i)] << " times 2^" << of_w[static_cast<std::size_t>(j)];
        }
      }
    }
  });
}

// Mutants: what one panel of the weights holds forgotten over the next; infinity less infinity.
TEST(KernelsLinear, AnInfiniteWeightMakesItsColumnInfinite) {
  const auto executor = make_serial_executor();
  Random random(6);
  for_each_isa([&](Isa isa) {
    for (const std::int64_t column : {3, 40, 69}) {
      Operand<float, 2> x({5, 9}, random), w({70, 9}, random), y({5, 70}, random);
      for (std::int64_t l = 0; l < 9; ++l) {
        for (std::int64_t i = 0; i < 5; ++i) x.mutable_view()(i, l) = 1;
        for (std::int64_t j = 0; j < 70; ++j) w.mutable_view()(j, l) = 1;
      }
      w.mutable_view()(column, 4) = std::numeric_limits<float>::infinity();
      ASSERT_TRUE(run_linear(isa, *executor, x, w, y));
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t j = 0; j < 70; ++j) {
          ASSERT_EQ(y.view()(i, j), j == column ? std::numeric_limits<float>::infinity() : 9.0F) << j;
        }
      }
    }
  });
}

// Mutant: parts of a product that is infinite cancel to NaN.
TEST(KernelsLinear, ProductsBeyondTheLargestNumber) {
  const auto executor = make_serial_executor();
  Random random(7);
  for_each_isa([&](Isa isa) {
    Operand<float, 2> x({3, 9}, random), w({5, 9}, random), y({3, 5}, random);
    for (std::int64_t l = 0; l < 9; ++l) {
      for (std::int64_t i = 0; i < 3; ++i) x.mutable_view()(i, l) = i == 1 ? 1.0F : 0x1.fff7p100F;
      for (std::int64_t j = 0; j < 5; ++j) w.mutable_view()(j, l) = 0x1.fff7p49F;
    }
    ASSERT_TRUE(run_linear(isa, *executor, x, w, y));
    for (std::int64_t j = 0; j < 5; ++j) {
      ASSERT_EQ(y.view()(0, j), std::numeric_limits<float>::infinity());
      ASSERT_LT(y.view()(1, j), 0x1p60F);
      ASSERT_EQ(y.view()(2, j), std::numeric_limits<float>::infinity());
    }
  });
}

// Mutants: the sum of a row runs in another order when other rows share its tile, or with more threads.
TEST(KernelsLinear, SameBitsForAnyThreadsAndNeighbours) {
  constexpr std::int64_t kRows = 423, kColumns = 77, kDepth = 133;
  Random random(3);
  const Operand<float, 2> x({kRows, kDepth}, random, Layout::contiguous), w({kColumns, kDepth}, random);
  for_each_isa([&](Isa isa) {
    const auto& kernels = kernels::kernels_for<float>(isa);
    AlignedBuffer<PackedByte> packed(kernels.packed_bytes(kColumns, kDepth));
    kernels.pack_weights(w.view(), packed.data());
    const auto run = [&](int threads, std::int64_t first_row, std::int64_t rows) {
      const auto executor = make_thread_pool(threads);
      std::vector<float> y(static_cast<std::size_t>(rows * kColumns));
      View<const float, 2> some = x.view();
      some.data += first_row * kDepth;
      some.sizes[0] = rows;
      const kernels::LinearArgs<float> args{some, packed.data(), nullptr,
                                            View<float, 2>::contiguous(y.data(), {rows, kColumns})};
      AlignedBuffer<std::byte> scratch(kernels.linear_scratch(args, threads));
      kernels.linear(*executor, args, scratch.data());
      return y;
    };
    const std::vector<float> all = run(1, 0, kRows);
    EXPECT_EQ(all, run(2, 0, kRows));
    EXPECT_EQ(all, run(5, 0, kRows));
    for (const std::int64_t first : {0, 1, 200, 410}) {
      for (const std::int64_t rows : {1, 2, 7, 12}) {
        const std::vector<float> expected(all.begin() + first * kColumns, all.begin() + (first + rows) * kColumns);
        EXPECT_EQ(expected, run(1, first, rows)) << first << " " << rows;
      }
    }
  });
}

}  // namespace
}  // namespace ennead::test
