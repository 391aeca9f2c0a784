// SPDX-License-Identifier: Apache-2.0
// What is asked of a View before its pointer is followed.
#include "base/check_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ennead/error.h"
#include "support/expect.h"
#include "support/random.h"

namespace ennead {
namespace {

using base::Extent;
using test::refuses;

float memory[4096];

Extent view(std::int64_t offset, const Dims& sizes, const Dims& strides) {
  return {memory + offset, sizes, strides, sizeof(float)};
}

testing::AssertionResult unreadable(const Extent& extent, const std::vector<std::string>& words) {
  return refuses([&] { require(base::check_readable("op", "x", extent)); }, words);
}

// Mutants: a null pointer passes; a null pointer without elements does not; the product of sizes wraps;
// the reach of strides wraps.
TEST(CheckView, Readable) {
  EXPECT_NO_THROW(require(base::check_readable("op", "x", view(5, {2, 3}, {-3, 1}))));
  EXPECT_NO_THROW(require(base::check_readable("op", "x", view(0, {2, 3}, {0, 0}))));
  EXPECT_NO_THROW(require(base::check_readable("op", "x", Extent{nullptr, {2, 0}, {0, 1}, 4})));
  EXPECT_TRUE(unreadable({nullptr, {1, 4, 12}, {48, 12, 1}, 4}, {"op: expected memory for x [1, 4, 12]", "null"}));
  EXPECT_TRUE(unreadable(view(0, {2, -3}, {3, 1}), {"op: expected x with sizes of 0 or more, got [2, -3]"}));
  EXPECT_TRUE(unreadable(view(0, {0, -3}, {3, 1}), {"got [0, -3]"}));
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  EXPECT_TRUE(unreadable(view(0, {kMany, kMany}, {0, 0}), {"can be addressed"}));
  EXPECT_TRUE(unreadable(view(0, {3, kMany}, {1, kMany}), {"can be addressed"}));
  EXPECT_TRUE(unreadable(view(0, {3}, {std::numeric_limits<std::int64_t>::min()}), {"can be addressed"}));
}

/// How often each address is named, by walking all elements.
std::vector<int> counts(const Extent& extent) {
  std::vector<int> count(4096);
  test::for_each_index(extent.sizes, [&](const Dims& at) {
    std::int64_t offset = static_cast<const float*>(extent.data) - memory;
    for (int axis = 0; axis < at.rank(); ++axis) offset += at[axis] * extent.strides[axis];
    ++count[static_cast<std::size_t>(offset)];
  });
  return count;
}

/// Sizes and strides in the middle of the memory: mostly slices of one matrix, sometimes anything.
Extent random_view(test::Random& random) {
  Dims sizes, strides;
  const std::int64_t columns = random.integer(1, 3), rows = random.integer(0, 4), step = random.integer(1, 12);
  const std::int64_t signs[] = {random.coin(0.3) ? -1 : 1, random.coin(0.3) ? -1 : 1};
  sizes = {random.integer(1, 3), rows, columns};
  strides = {signs[0] * step * random.integer(0, 5), signs[1] * step, random.coin(0.2) ? 0 : 1};
  if (random.coin(0.3)) {
    std::swap(sizes[0], sizes[2]);
    std::swap(strides[0], strides[2]);
  }
  return view(2048 + random.integer(-20, 20), sizes, strides);
}

// The checks may be wrong in one direction only: what they let pass holds, by counting addresses.
// Mutants: an axis of stride 0 lets pass; negative strides taken as they are; a circle shorter than what
// lies on it. They must also see what is common: slices of one matrix.
TEST(CheckView, WhatPassesIsApart) {
  test::Random random(7);
  int writable = 0, apart = 0;
  for (int round = 0; round < 20000; ++round) {
    const Extent a = random_view(random), b = random_view(random);
    const auto in_a = counts(a), in_b = counts(b);
    try {
      require(base::check_writable("op", "out", a));
      ++writable;
      ASSERT_LE(*std::max_element(in_a.begin(), in_a.end()), 1) << to_string(a.sizes) << " " << to_string(a.strides);
    } catch (const Error&) {
    }
    try {
      require(base::check_apart("op", "out", a, "x", b));
      ++apart;
      for (std::size_t i = 0; i < in_a.size(); ++i) {
        ASSERT_FALSE(in_a[i] > 0 && in_b[i] > 0) << to_string(a.sizes) << " " << to_string(a.strides) << " and "
                                                 << to_string(b.sizes) << " " << to_string(b.strides);
      }
    } catch (const Error&) {
    }
  }
  EXPECT_GT(writable, 5000);
  EXPECT_GT(apart, 2000);
}

TEST(CheckView, Writable) {
  const auto unwritable = [](const Dims& sizes, const Dims& strides) {
    return refuses([&] { require(base::check_writable("op", "out", view(2048, sizes, strides))); },
                   {"op: expected out with strides that keep its elements apart"});
  };
  EXPECT_TRUE(unwritable({1, 4, 12}, {48, 0, 1}));
  EXPECT_TRUE(unwritable({2, 3}, {1, 1}));
  EXPECT_TRUE(unwritable({2, 3}, {-2, 1}));
  for (const Dims& strides : {Dims{12, 4, 1}, Dims{1, 2, 6}, Dims{-12, -4, -1}, Dims{100, 7, 2}}) {
    EXPECT_NO_THROW(require(base::check_writable("op", "out", view(2048, {2, 3, 4}, strides)))) << to_string(strides);
  }
  EXPECT_NO_THROW(require(base::check_writable("op", "out", view(2048, {1, 4, 12}, {0, 12, 1}))));
  EXPECT_NO_THROW(require(base::check_writable("op", "out", view(2048, {0, 4}, {0, 0}))));
}

// Q, K, V and the result as columns of one matrix of tokens, as engines keep them.
TEST(CheckView, ColumnsOfOneMatrixAreApart) {
  const Dims sizes{2, 3, 5, 4}, strides{5 * 60, 4, 60, 1};  // [batch, heads, tokens, head_dim]
  const Extent out = view(0, sizes, strides);
  EXPECT_NO_THROW(require(base::check_apart("op", "out", out, "query", view(12, sizes, strides))));
  EXPECT_NO_THROW(require(base::check_apart("op", "out", out, "value", view(48, sizes, strides))));
  EXPECT_TRUE(refuses([&] { require(base::check_apart("op", "out", out, "query", view(11, sizes, strides))); },
                      {"op: expected out apart from query in memory, got views that overlap"}));
  EXPECT_TRUE(refuses([&] { require(base::check_apart("op", "out", out, "query", out)); }, {"overlap"}));
}

}  // namespace
}  // namespace ennead
