// SPDX-License-Identifier: Apache-2.0
// kernels: attention on every instruction set, against the float64 oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kernels.h"
#include "support/attention_case.h"
#include "support/contexts.h"

namespace ennead::test {
namespace {

/// Bits of a and b agree, NaN included.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// NaN with every payload bit set: shifting its low bits into an exponent would show.
template <class T>
T nan_of_ones() {
  T nan;
  std::memset(&nan, 0xff, sizeof(nan));
  return nan;
}

template <class T>
class KernelsAttention : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsAttention, Types);

// Mutants: a tile's last row or key dropped; the causal limit off by one in the score or the value
// tile; a narrow group of value columns at the wrong offset; keys beyond the last one counted.
TYPED_TEST(KernelsAttention, CausalSizes) {
  const auto executor = make_serial_executor();
  Random random(1);
  const std::vector<std::int64_t> dims{1, 8, 24, 63, 64, 80, 128};
  for_each_isa([&](Isa isa) {
    std::size_t dim = 0;
    for (const std::int64_t length : {1, 2, 3, 7, 16, 17, 63, 64, 65, 129, 257, 1025}) {
      for (int repeat = 0; repeat < (length < 200 ? 3 : 1); ++repeat, ++dim) {
        const std::int64_t head_dim = length > 1000 ? 24 : dims[dim % dims.size()];
        AttentionCase<TypeParam> attention({length > 1000 ? 1 : 2, 2, 1, length, length, head_dim, head_dim},
                                           {.causal = true}, random);
        attention.run(isa, *executor);
        ASSERT_TRUE(attention.right());
      }
    }
  });
}

// Mutants: any mask ignored, applied twice, read at the wrong batch, head, row or key, or combined by
// OR; score_mod after the bias; a skipped block's stale weights multiplied; strides taken for granted.
TYPED_TEST(KernelsAttention, MasksOfAllKindsCombined) {
  const auto pool = make_thread_pool(2);
  Random random(2);
  const std::vector<std::int64_t> lengths{1, 2, 3, 7, 16, 17, 31, 63, 64, 65, 100, 129, 300, 530};
  const std::vector<std::int64_t> dims{1, 3, 8, 16, 24, 63, 64, 80};
  const std::vector<std::array<std::int64_t, 2>> blocks{{0, 0}, {0, 0}, {1, 3}, {7, 5}, {16, 16}, {64, 32}, {128, 128}};
  for_each_isa([&](Isa isa) {
    for (int i = 0; i < 60; ++i) {
      AttentionShape shape;
      shape.batch = random.integer(1, 2);
      shape.kv_heads = random.integer(1, 2);
      shape.heads = shape.kv_heads * random.integer(1, 3);
      shape.num_queries = random.pick(lengths);
      shape.num_keys = random.coin() ? shape.num_queries : random.pick(lengths);
      shape.head_dim = random.pick(dims);
      shape.value_dim = random.pick(dims);
      AttentionMasks masks;
      masks.causal = random.coin();
      masks.causal_offset = random.coin() ? 0 : random.integer(-20, 40);
      masks.allow = random.coin(0.4);
      masks.bias = random.coin(0.3);
      masks.score_mod = random.coin(0.3);
      const auto block = random.pick(blocks);
      masks.block_q = block[0];
      masks.block_k = block[1];
      AttentionCase<TypeParam> attention(shape, masks, random);
      attention.run(isa, *pool);
      ASSERT_TRUE(attention.right()) << "case " << i;
    }
  });
}

// Mutants: nothing written for no keys; a division by 0.
TYPED_TEST(KernelsAttention, EmptySizes) {
  const auto executor = make_serial_executor();
  Random random(3);
  for_each_isa([&](Isa isa) {
    for (const AttentionShape& shape :
         {AttentionShape{0, 2, 1, 3, 3, 4, 4}, AttentionShape{2, 2, 1, 0, 3, 4, 4}, AttentionShape{2, 2, 1, 5, 0, 4, 4},
          AttentionShape{1, 0, 1, 5, 3, 4, 4}, AttentionShape{1, 1, 1, 5, 3, 4, 0}}) {
      AttentionCase<TypeParam> attention(shape, {}, random);
      attention.run(isa, *executor);
      ASSERT_TRUE(attention.right());
    }
  });
}

// Every score is 0 then. Mutant: a division by the depth of the products.
TYPED_TEST(KernelsAttention, NoHeadDim) {
  const auto executor = make_serial_executor();
  Random random(11);
  for_each_isa([&](Isa isa) {
    AttentionCase<TypeParam> attention({1, 2, 1, 5, 70, 0, 4}, {.causal = true}, random);
    attention.args.scale = TypeParam(1);
    attention.run(isa, *executor);
    ASSERT_TRUE(attention.right());
  });
}

// Columns of values far smaller than others, under weights of 2^-36. Mutants: what is lost of a small product depends
// on whether there is a bias, or on what lies behind a mask.
TYPED_TEST(KernelsAttention, ColumnsOfSmallValues) {
  const auto executor = make_serial_executor();
  Random random(12);
  for_each_isa([&](Isa isa) {
    for (const double small : {1e-15, 1e-19, 1e-22, 1e-25, 1e-30, 1e-33}) {
      AttentionCase<TypeParam> attention({1, 1, 1, 40, 300, 16, 16}, {.causal = true, .causal_offset = 200}, random,
                                         Layout::contiguous);
      for (std::int64_t i = 0; i < 40; ++i) {
        for (std::int64_t d = 0; d < 16; ++d) {
          TypeParam& q = attention.query(0, 0, i, d);
          q = d == 0 ? TypeParam(1) : q * TypeParam(0.01);
        }
      }
      for (std::int64_t k = 0; k < 300; ++k) {
        attention.key(0, 0, k, 0) = TypeParam(-100);
        for (std::int64_t d = 8; d < 16; ++d) attention.value(0, 0, k, d) *= static_cast<TypeParam>(small);
      }
      attention.run(isa, *executor);
      const std::vector<TypeParam> plain = attention.results();
      const oracle::AttentionOutput want = attention.expected();
      for (std::int64_t i = 0; i < 40; ++i) {
        for (std::int64_t d = 8; d < 16; ++d) {
          ASSERT_NEAR(static_cast<double>(attention.args.out(0, 0, i, d)),
                      want.out[static_cast<std::size_t>(i * 16 + d)], small * 1e-5);
        }
      }
      if (isa == Isa::scalar) continue;
      const TypeParam zero = 0;
      attention.args.bias = View<const TypeParam, 4>{&zero, {1, 1, 40, 300}, {0, 0, 0, 0}};
      attention.run(isa, *executor);
      ASSERT_TRUE(same_bits(plain, attention.results())) << "a bias of 0, values of " << small;
      attention.args.bias.data = nullptr;
      for (std::int64_t k = 241; k < 300; ++k) attention.key(0, 0, k, 3) = TypeParam(1e6);
      attention.run(isa, *executor);
      ASSERT_TRUE(same_bits(plain, attention.results())) << "hidden keys, values of " << small;
    }
  });
}

// Mutants: a reduction that depends on the tile, the chunk of the queue or the neighbours.
TYPED_TEST(KernelsAttention, BitsDependOnNothingButTheRow) {
  Random random(4);
  for_each_isa([&](Isa isa) {
    if (isa == Isa::scalar) return;
    const auto serial = make_serial_executor();
    const AttentionShape shape{2, 2, 1, 301, 301, 40, 24};
    AttentionCase<TypeParam> attention(shape, {.causal = true}, random, Layout::contiguous);
    attention.run(isa, *serial);
    const std::vector<TypeParam> want = attention.results();
    for (const int threads : {2, 3, 5}) {
      const auto pool = make_thread_pool(threads);
      attention.run(isa, *pool);
      ASSERT_TRUE(same_bits(want, attention.results())) << threads << " threads";
    }
    // The second batch item alone, and its queries from the 100th on with their keys from 0 on.
    auto args = attention.args;
    const std::size_t row = static_cast<std::size_t>(shape.value_dim + 1);
    for (const std::int64_t first : {0, 1, 100, 300}) {
      const auto part = [&](auto view, std::int64_t from) {
        view.data += view.stride(0) + from * view.stride(2);
        view.sizes[0] = 1;
        view.sizes[2] -= from;
        return view;
      };
      attention.args.q = part(args.q, first);
      attention.args.k = part(args.k, 0);
      attention.args.v = part(args.v, 0);
      attention.args.out = part(args.out, first);
      attention.args.lse = part(args.lse, first);
      attention.args.causal_offset = first;
      attention.run(isa, *serial);
      attention.args = args;
      std::vector<TypeParam> got, expected;
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        for (std::int64_t q = first; q < shape.num_queries; ++q) {
          attention.append_row(1, h, q, got);
          const std::size_t at = static_cast<std::size_t>((shape.heads + h) * shape.num_queries + q) * row;
          expected.insert(expected.end(), want.begin() + static_cast<std::ptrdiff_t>(at),
                          want.begin() + static_cast<std::ptrdiff_t>(at + row));
        }
      }
      ASSERT_TRUE(same_bits(expected, got)) << "queries from " << first;
    }
  });
}

// Mutants: 0 * NaN where rows of a tile see different keys; a mask by adding; norms or maxima of
// masked keys deciding anything about the result.
TYPED_TEST(KernelsAttention, NothingBehindAMaskLeaks) {
  const auto executor = make_serial_executor();
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  Random random(5);
  for_each_isa([&](Isa isa) {
    for (int i = 0; i < 24; ++i) {
      const AttentionMasks masks{
          .causal = i % 2 == 0, .allow = i % 4 >= 2, .bias = i % 3 == 0, .block_q = i % 8 >= 4 ? 16 : 0, .block_k = 16};
      AttentionCase<TypeParam> attention({1, 2, 1, 70, 300, 20, 40}, masks, random, Layout::contiguous);
      if (masks.bias) {  // a bias of -inf blocks whatever the score is
        for (std::int64_t q = 0; q < 70; ++q) {
          for (const std::int64_t h : {0, 1}) attention.bias(0, h, q, 60) = -infinity;
        }
      }
      attention.run(isa, *executor);
      const std::vector<TypeParam> clean = attention.results();
      for (std::int64_t k = 0; k < 300; ++k) {
        const TypeParam bad = k % 3 == 0   ? infinity
                              : k % 3 == 1 ? -infinity
                                           : std::numeric_limits<TypeParam>::quiet_NaN();
        bool seen = false;
        for (std::int64_t h = 0; h < 2; ++h) {
          for (std::int64_t q = 0; q < 70; ++q) {
            seen = seen || (attention.allowed(0, h, q, k) && !(masks.bias && k == 60));
          }
        }
        if (seen) continue;
        for (std::int64_t d = 0; d < 20; ++d) attention.key(0, 0, k, d) = bad;
        for (std::int64_t d = 0; d < 40; ++d) attention.value(0, 0, k, d) = bad;
      }
      attention.run(isa, *executor);
      ASSERT_TRUE(same_bits(clean, attention.results())) << attention.describe();
    }
  });
}

// Mutants: a NaN lost by a maximum or a comparison; a NaN spread over the rows of a tile.
TYPED_TEST(KernelsAttention, VisibleNaNReachesExactlyTheRowsThatSeeIt) {
  const auto executor = make_serial_executor();
  Random random(6);
  for_each_isa([&](Isa isa) {
    for (int where = 0; where < 3; ++where) {
      AttentionCase<TypeParam> attention({1, 1, 1, 90, 90, 16, 16}, {.causal = true}, random, Layout::contiguous);
      const TypeParam nan = nan_of_ones<TypeParam>();
      if (where == 0) attention.key(0, 0, 50, 3) = nan;
      if (where == 1) attention.value(0, 0, 50, 3) = nan;
      if (where == 2) attention.query(0, 0, 50, 3) = nan;
      attention.run(isa, *executor);
      for (std::int64_t q = 0; q < 90; ++q) {
        const bool sees = where == 2 ? q == 50 : q >= 50;
        ASSERT_EQ(std::isnan(attention.args.lse(0, 0, q)), sees && where != 1) << "where " << where << " row " << q;
        for (std::int64_t d = 0; d < 16; ++d) {
          ASSERT_EQ(std::isnan(attention.args.out(0, 0, q, d)), sees && (where != 1 || d == 3))
              << "where " << where << " row " << q << " column " << d;
        }
      }
    }
  });
}

// Mutants: overflow of the exponent or of a reference; a rescaling of the sums forgotten; the zero
// threshold cutting weights that count.
TYPED_TEST(KernelsAttention, ScoresOfAnySize) {
  const auto executor = make_serial_executor();
  Random random(7);
  for_each_isa([&](Isa isa) {
    for (const double size : {1e-30, 1e-3, 30.0, 1e3, 1e6, 1e30}) {
      // Scores are whole multiples of `size`, so that no rounding of a product decides which is largest.
      AttentionCase<TypeParam> attention({1, 1, 1, 60, 700, 4, 8}, {.causal = false}, random, Layout::contiguous);
      for (std::int64_t i = 0; i < 60; ++i) {
        for (std::int64_t d = 0; d < 4; ++d) attention.query(0, 0, i, d) = d == 0 ? TypeParam(1) : TypeParam(0);
      }
      for (std::int64_t i = 0; i < 700; ++i) {
        attention.key(0, 0, i, 0) = static_cast<TypeParam>(size * static_cast<double>(random.integer(-5, 5 + i / 100)));
      }
      attention.args.scale = TypeParam(1);
      attention.run(isa, *executor);
      ASSERT_TRUE(attention.right(2000)) << "scores of size " << size;
    }
  });
}

// Keys, values and queries far from 1, which some kernels compute in another way, among ordinary ones.
// Mutants: such a key overlooked beyond the first keys of a step; as many keys packed for all rows as the first one
// sees; what another call left in the scratch taken for packed keys.
TYPED_TEST(KernelsAttention, RowsFarFromOneAmongOthers) {
  Random random(13);
  for_each_isa([&](Isa isa) {
    for (const std::int64_t every : {7, 100, 301}) {
      const AttentionShape shape{1, 4, 2, 530, 530, 24, 20};
      std::vector<TypeParam> first;
      AttentionCase<TypeParam> attention(shape, {.causal = true}, random, Layout::contiguous);
      AttentionCase<TypeParam> other(shape, {.causal = true}, random, Layout::contiguous);
      for (AttentionCase<TypeParam>* each : {&attention, &other}) {
        for (std::int64_t k = every == 301 ? 350 : 5; k < 528; k += every) {
          for (std::int64_t h = 0; h < 2; ++h) {
            for (std::int64_t d = 0; d < 24; ++d) each->key(0, h, k, d) *= TypeParam(0x1p-60);
            for (std::int64_t d = 0; d < 20; ++d) each->value(0, h, k + 2, d) *= TypeParam(0x1p-60);
          }
          for (std::int64_t d = 0; d < 24; ++d) each->query(0, 1, k, d) *= TypeParam(0x1p-60);
        }
      }
      for (const int threads : {1, 3}) {
        const auto executor = make_thread_pool(threads);
        attention.run(isa, *executor);
        if (first.empty()) {
          ASSERT_TRUE(attention.right());
          first = attention.results();
        }
        ASSERT_TRUE(same_bits(first, attention.results())) << threads << " threads";
        const auto& kernels = kernels::kernels_for<TypeParam>(isa);
        AlignedBuffer<std::byte> scratch(kernels.attention_scratch(other.args, threads));
        kernels.attention(*executor, other.args, scratch.data());
        kernels.attention(*executor, attention.args, scratch.data());
        ASSERT_TRUE(same_bits(first, attention.results())) << threads << " threads, scratch used before";
      }
    }
  });
}

// Mutants: the largest norm of a step taken from some of its keys only, so that weights of the others overflow.
TYPED_TEST(KernelsAttention, OneLongKey) {
  const auto executor = make_serial_executor();
  Random random(14);
  for_each_isa([&](Isa isa) {
    for (const std::int64_t where : {3, 40, 100, 200, 290}) {
      AttentionCase<TypeParam> attention({1, 1, 1, 40, 300, 8, 8}, {}, random, Layout::contiguous);
      for (std::int64_t d = 0; d < 8; ++d) attention.key(0, 0, where, d) *= TypeParam(3000);
      attention.run(isa, *executor);
      ASSERT_TRUE(attention.right(20000)) << "key " << where;
    }
  });
}

// Mutants: a row of -inf scores divided by 0; the lowest finite number, used as a mask, turned into -inf.
TYPED_TEST(KernelsAttention, RowsWithoutAKeyAndRowsOfTheLowestNumber) {
  const auto executor = make_serial_executor();
  Random random(8);
  for_each_isa([&](Isa isa) {
    AttentionCase<TypeParam> attention({1, 1, 1, 20, 37, 8, 8}, {.bias = true}, random, Layout::contiguous);
    for (std::int64_t k = 0; k < 37; ++k) {
      attention.bias(0, 0, 3, k) = -std::numeric_limits<TypeParam>::infinity();
      attention.bias(0, 0, 4, k) = std::numeric_limits<TypeParam>::lowest();
    }
    attention.run(isa, *executor);
    ASSERT_EQ(attention.args.lse(0, 0, 3), -std::numeric_limits<TypeParam>::infinity());
    for (std::int64_t d = 0; d < 8; ++d) {
      double mean = 0;
      for (std::int64_t k = 0; k < 37; ++k) mean += static_cast<double>(attention.args.v(0, 0, k, d)) / 37;
      ASSERT_EQ(attention.args.out(0, 0, 3, d), TypeParam(0));
      ASSERT_NEAR(static_cast<double>(attention.args.out(0, 0, 4, d)), mean, 1e-6);
    }
  });
}

// Mutants: long sums kept in one chain; a step's sums lost.
TYPED_TEST(KernelsAttention, LongRowsOfEqualScores) {
  const auto executor = make_serial_executor();
  Random random(9);
  for_each_isa([&](Isa isa) {
    AttentionCase<TypeParam> attention({1, 1, 1, 2, 65536, 2, 3}, {}, random, Layout::contiguous);
    for (std::int64_t i = 0; i < 2; ++i) attention.query(0, 0, i, 0) = attention.query(0, 0, i, 1) = TypeParam(0);
    double mean = 0;
    for (std::int64_t k = 0; k < 65536; ++k) {
      attention.value(0, 0, k, 0) = static_cast<TypeParam>(random.uniform());
      mean += static_cast<double>(attention.value(0, 0, k, 0)) / 65536;
    }
    attention.run(isa, *executor);
    if (isa == Isa::scalar) return;  // plain loops sum in one chain
    ASSERT_NEAR(static_cast<double>(attention.args.out(0, 0, 1, 0)), mean, 1e-6);
    ASSERT_NEAR(static_cast<double>(attention.args.lse(0, 0, 1)), std::log(65536.0), 1e-6);
  });
}

}  // namespace
}  // namespace ennead::test
