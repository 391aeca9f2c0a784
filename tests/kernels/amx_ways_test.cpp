// SPDX-License-Identifier: Apache-2.0
// kernels: which way each element of a product on AMX goes. Rows and columns far from 1 are multiplied by plain
// multiply-adds, all others by the tile registers. Both ways are right, and the first is many times slower, so only the
// bits tell: those of plain multiply-adds can be foretold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/kernels.h"
#include "support/attention_case.h"
#include "support/contexts.h"
#include "support/kernel_operands.h"

namespace ennead::test {
namespace {

constexpr std::int64_t kRows = 70, kColumns = 100, kDepth = 150;
constexpr std::int64_t kWildRow = 40, kWildColumn = 67;

bool has_amx() { return request_isa(Isa::amx).ok(); }

/// x[i] . w[j] by one chain of multiply-adds in the order of the operands' layout: pairs of (k, k + 16).
float plain_product(const View<const float, 2>& x, std::int64_t i, const View<const float, 2>& w, std::int64_t j) {
  float sum = 0;
  for (std::int64_t k0 = 0; k0 < kDepth; k0 += 32) {
    for (std::int64_t k = k0; k < std::min(k0 + 16, kDepth); ++k) {
      sum = std::fma(x(i, k), w(j, k), sum);
      if (k + 16 < kDepth) sum = std::fma(x(i, k + 16), w(j, k + 16), sum);
    }
  }
  return sum;
}

/// Operands with or without a row and a column that are far from 1.
struct Product {
  Random random{1};
  Operand<float, 2> x{{kRows, kDepth}, random, Layout::contiguous}, w{{kColumns, kDepth}, random, Layout::contiguous},
      y{{kRows, kColumns}, random, Layout::contiguous};

  explicit Product(bool wild) {
    for (std::int64_t k = 0; wild && k < kDepth; ++k) {
      x.mutable_view()(kWildRow, k) *= 0x1p-60F;
      w.mutable_view()(kWildColumn, k) *= 0x1p60F;
    }
    y.poison();
  }

  /// The rows, and the columns, of y that are all plain.
  void expect_plain(const std::set<std::int64_t>& rows, const std::set<std::int64_t>& columns) const {
    std::vector<std::int64_t> in_row(kRows), in_column(kColumns);
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kColumns; ++j) {
        if (y.view()(i, j) != plain_product(x.view(), i, w.view(), j)) continue;
        ++in_row[static_cast<std::size_t>(i)];
        ++in_column[static_cast<std::size_t>(j)];
      }
    }
    for (std::int64_t i = 0; i < kRows; ++i) {
      EXPECT_EQ(in_row[static_cast<std::size_t>(i)] == kColumns, rows.count(i) == 1) << "row " << i;
    }
    for (std::int64_t j = 0; j < kColumns; ++j) {
      EXPECT_EQ(in_column[static_cast<std::size_t>(j)] == kRows, columns.count(j) == 1) << "column " << j;
    }
  }
};

// Mutants: rows or weights called wild that are not (right, and slow), or the other way round.
TEST(KernelsAmxWays, OnlyWildRowsAndColumnsOfLinearArePlain) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX";
  const auto& kernels = kernels::kernels_for<float>(Isa::amx);
  for (const int threads : {1, 2}) {
    for (const bool wild : {false, true}) {
      Product product(wild);
      AlignedBuffer<PackedByte> packed(kernels.packed_bytes(kColumns, kDepth));
      kernels.pack_weights(product.w.view(), packed.data());
      const kernels::LinearArgs<float> args{product.x.view(), packed.data(), nullptr, product.y.mutable_view()};
      AlignedBuffer<std::byte> scratch(kernels.linear_scratch(args, threads));
      kernels.linear(*make_thread_pool(threads), args, scratch.data());
      wild ? product.expect_plain({kWildRow}, {kWildColumn}) : product.expect_plain({}, {});
    }
  }
}

TEST(KernelsAmxWays, OnlyWildRowsAndColumnsOfAMatmulArePlain) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX";
  const auto& kernels = kernels::kernels_for<float>(Isa::amx);
  for (const int threads : {1, 2}) {
    for (const bool wild : {false, true}) {
      Product product(wild);
      kernels::MatmulArgs<float> args;
      args.a = {product.x.view().data, {1, 1, kRows, kDepth}, {0, 0, kDepth, 1}};
      args.b = {product.w.view().data, {1, 1, kDepth, kColumns}, {0, 0, 1, kDepth}};
      args.c = {product.y.mutable_view().data, {1, 1, kRows, kColumns}, {0, 0, kColumns, 1}};
      AlignedBuffer<std::byte> scratch(kernels.matmul_scratch(args, threads));
      kernels.matmul(*make_thread_pool(threads), args, scratch.data());
      wild ? product.expect_plain({kWildRow}, {kWildColumn}) : product.expect_plain({}, {});
    }
  }
}

// A row of attention that is far from 1, or sees such a key, is that of AVX-512, bit for bit; no other is.
// Mutants: queries, keys or values called wild that are not.
TEST(KernelsAmxWays, OnlyRowsThatSeeSomethingWildAreThoseOfAvx512) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX";
  constexpr std::int64_t kQueries = 230, kWildKey = 150;
  const auto executor = make_serial_executor();
  for (const char* where : {"none", "query", "key", "value"}) {
    SCOPED_TRACE(where);
    Random random(2);
    AttentionCase<float> attention({1, 1, 1, kQueries, kQueries, 40, 24}, {.causal = true}, random, Layout::contiguous);
    for (std::int64_t d = 0; d < 24; ++d) {
      if (std::string(where) == "query") attention.query(0, 0, kWildRow, d) *= 0x1p55F;
      if (std::string(where) == "key") attention.key(0, 0, kWildKey, d) *= 0x1p55F;
      if (std::string(where) == "value") attention.value(0, 0, kWildKey, d) *= 0x1p55F;
    }
    std::vector<std::vector<float>> rows[2];
    for (const bool amx : {false, true}) {
      attention.run(amx ? Isa::amx : Isa::avx512, *executor);
      for (std::int64_t q = 0; q < kQueries; ++q) attention.append_row(0, 0, q, rows[amx].emplace_back());
    }
    // The first rows are sums of few terms, which both may get exactly right.
    for (std::int64_t q = 8; q < kQueries; ++q) {
      const bool wild = std::string(where) == "none"    ? false
                        : std::string(where) == "query" ? q == kWildRow
                                                        : q >= kWildKey;
      EXPECT_EQ(rows[0][static_cast<std::size_t>(q)] == rows[1][static_cast<std::size_t>(q)], wild) << "row " << q;
    }
  }
}

}  // namespace
}  // namespace ennead::test
