// SPDX-License-Identifier: Apache-2.0
// The operations that move no numbers, and cat.
#include <gtest/gtest.h>

#include "ennead/ops.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead {
namespace {

using test::refuses;

Tensor<double> counting(const Context& context, const Dims& sizes) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < sizes.product(); ++i) values.push_back(static_cast<double>(i));
  return test::from_doubles<double>(context, sizes, values);
}

TEST(Shapes, ViewSharesMemoryOrRefuses) {
  const Context context = test::poisoned_context();
  const auto x = counting(context, {2, 3, 4});
  const auto y = view(x, {2, -1});
  EXPECT_EQ(to_string(y.sizes()), "[2, 12]");
  EXPECT_EQ(y.data(), x.data());
  EXPECT_EQ(to_string(view(x, {24}).sizes()), "[24]");
  EXPECT_EQ(to_string(view(x, {1, 2, 1, 3, 2, 2, 1}).sizes()), "[1, 2, 1, 3, 2, 2, 1]");
  EXPECT_TRUE(refuses([&] { view(x, {5, -1}); }, {"24", "[5, -1]"}));
  EXPECT_TRUE(refuses([&] { view(x, {-1, -1}); }));
  EXPECT_TRUE(refuses([&] { view(x, {-2, -12}); }));
  EXPECT_TRUE(refuses([&] { view(transpose(x, 1, 2), {2, 12}); }, {"[2, 12]"}));
}

// A view is possible exactly when strides can say it; then it must read the same numbers.
// Mutants: runs of axes matched from the wrong end; stride of a size-1 axis compared.
TEST(Shapes, RandomViews) {
  test::Random random(1);
  const Context context = test::poisoned_context();
  int views = 0;
  for (int round = 0; round < 2000; ++round) {
    Dims sizes;
    for (std::int64_t axis = random.integer(1, 4); axis > 0; --axis) sizes.push_back(random.integer(1, 4));
    auto x = test::with_layout(counting(context, sizes), test::kLayouts[random.integer(0, 3)]);
    if (x.rank() > 1 && random.coin()) x = transpose(x, 0, static_cast<int>(random.integer(0, x.rank() - 1)));
    Dims wanted;
    std::int64_t left = x.num_elements();
    while (left > 1 && wanted.rank() < 5) {
      std::int64_t size = random.integer(1, 6);
      if (left % size != 0 || wanted.rank() == 4) size = left;
      wanted.push_back(size);
      left /= size;
    }
    try {
      EXPECT_TRUE(test::close(test::to_doubles(x), view(x, wanted), {}));
      ++views;
    } catch (const Error&) {
      EXPECT_FALSE(x.is_contiguous());
    }
    EXPECT_TRUE(test::close(test::to_doubles(x), view(contiguous(x), wanted), {}));
  }
  EXPECT_GT(views, 500);
}

TEST(Shapes, TransposePermuteNarrowSelect) {
  const Context context = test::poisoned_context();
  const auto x = counting(context, {2, 3, 4});
  test::for_each_index(x.sizes(), [&](const Dims& at) {
    const double value = test::element(x, at);
    EXPECT_EQ(transpose(x, 0, -1).at({at[2], at[1], at[0]}), value);
    EXPECT_EQ(permute(x, {1, 2, 0}).at({at[1], at[2], at[0]}), value);
    EXPECT_EQ(select(x, 1, at[1]).at({at[0], at[2]}), value);
    EXPECT_EQ(unbind(x, -1)[static_cast<std::size_t>(at[2])].at({at[0], at[1]}), value);
    if (at[2] >= 1 && at[2] < 3) {
      EXPECT_EQ(narrow(x, -1, 1, 2).at({at[0], at[1], at[2] - 1}), value);
    }
  });
  EXPECT_EQ(to_string(narrow(x, 0, 2, 0).sizes()), "[0, 3, 4]");
  // An empty tensor has no memory to point into.
  const auto empty = counting(context, {2, 0, 4});
  EXPECT_EQ(narrow(empty, 2, 1, 2).data(), empty.data());
  EXPECT_EQ(to_string(select(empty, 0, 1).sizes()), "[0, 4]");
  EXPECT_TRUE(refuses([&] { narrow(x, 1, 2, 2); }, {"3", "2"}));
  EXPECT_TRUE(refuses([&] { narrow(x, 1, -1, 2); }));
  EXPECT_TRUE(refuses([&] { select(x, 1, 3); }, {"3"}));
  EXPECT_TRUE(refuses([&] { select(x, 3, 0); }, {"3"}));
  EXPECT_TRUE(refuses([&] { permute(x, {0, 1, 1}); }, {"[0, 1, 1]"}));
  EXPECT_TRUE(refuses([&] { permute(x, {0, 1}); }, {"[0, 1]"}));
  EXPECT_TRUE(refuses([&] { transpose(x, 0, -4); }, {"-4"}));
}

TEST(Shapes, ContiguousCopiesOnlyWhenItMust) {
  const Context context = test::poisoned_context();
  const auto x = counting(context, {3, 4});
  EXPECT_EQ(contiguous(x).data(), x.data());
  for (const test::Layout layout : test::kLayouts) {
    const auto y = contiguous(test::with_layout(x, layout));
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_TRUE(test::close(test::to_doubles(x), y, {}));
  }
}

TEST(Shapes, Cat) {
  const Context context = test::poisoned_context();
  const auto x = counting(context, {2, 3, 4});
  for (int axis = -3; axis < 3; ++axis) {
    const auto at = axis < 0 ? axis + 3 : axis;
    const std::vector<Tensor<double>> parts{narrow(x, axis, 0, 1), narrow(x, axis, 1, 0),
                                            narrow(x, axis, 1, x.size(at) - 1)};
    EXPECT_TRUE(test::close(test::to_doubles(x), cat<double>(parts, axis), {})) << axis;
  }
  const std::vector<Tensor<double>> unlike{x, counting(context, {2, 2, 4})};
  EXPECT_TRUE(refuses([&] { cat<double>(unlike, 0); }, {"[2, 3, 4]", "[2, 2, 4]"}));
  EXPECT_TRUE(refuses([&] { cat<double>(std::vector<Tensor<double>>{}, 0); }));
  EXPECT_TRUE(refuses([&] { cat<double>(std::vector<Tensor<double>>{x}, 3); }, {"3"}));
}

// Mutant: sizes multiplied without a look at overflow, where 2^64 elements pass for none.
TEST(View, RefusesSizesThatOverflow) {
  const Context context = test::poisoned_context();
  const auto none = Tensor<float>::full(context, {0}, 1);
  EXPECT_THROW(view(none, {std::int64_t{1} << 32, std::int64_t{1} << 32}), Error);
  EXPECT_THROW(view(none, {-1, std::int64_t{1} << 32, std::int64_t{1} << 32}), Error);
}

}  // namespace
}  // namespace ennead
