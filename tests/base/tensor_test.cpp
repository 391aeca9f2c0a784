// SPDX-License-Identifier: Apache-2.0
#include "ennead/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/for_each_element.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead {
namespace {

using test::refuses;

TEST(Dims, TextProductAndEquality) {
  EXPECT_EQ(to_string(Dims{8, 1024, 768}), "[8, 1024, 768]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  EXPECT_EQ((Dims{2, 3, 0}).product(), 0);
  EXPECT_EQ(Dims{}.product(), 1);
  EXPECT_FALSE((Dims{2, 3} == Dims{2, 3, 1}));
  EXPECT_FALSE((Dims{2, 3, 1} == Dims{2, 3}));
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_TRUE(refuses([] { Dims{1, 2, 3, 4, 5, 6, 7, 8, 9}; }, {"8"}));
}

// K11. Mutants: a 32-bit product; the check after the multiplication.
TEST(Tensor, RefusesSizesThatCannotBe) {
  const Context context = test::poisoned_context();
  constexpr std::int64_t kBig = std::int64_t{1} << 33;
  EXPECT_TRUE(refuses([&] { Tensor<float>::uninitialized(context, {kBig, kBig}); }, {"[8589934592, 8589934592]"}));
  EXPECT_TRUE(refuses([&] { Tensor<float>::uninitialized(context, {2, -1}); }, {"[2, -1]"}));
  EXPECT_TRUE(refuses([&] { Tensor<float>::uninitialized(context, {0, kBig, kBig}); }));
  EXPECT_TRUE(refuses([&] { Tensor<double>::uninitialized(context, {kBig, 1 << 20}); }, {"bytes"}));
  EXPECT_TRUE(check_sizes({65536, 65536, 8}, 4).ok());
}

TEST(Tensor, UninitialisedMemoryIsPoisoned) {
  const Context context = test::poisoned_context();
  const auto tensor = Tensor<float>::uninitialized(context, {3, 5});
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(std::isnan(tensor.data()[i]));
}

TEST(Tensor, HandlesShareAndReleaseStorage) {
  const Context context = test::poisoned_context();
  {
    const auto a = Tensor<double>::full(context, {4}, 1.5);
    const auto b = a;
    b.at({2}) = 7;
    EXPECT_EQ(a.at({2}), 7);
    EXPECT_EQ(context.arena().bytes_in_use(), 32u);
  }
  EXPECT_EQ(context.arena().bytes_in_use(), 0u);
  EXPECT_TRUE(Tensor<float>().empty());
  EXPECT_FALSE(Tensor<float>::uninitialized(context, {0}).empty());
}

TEST(Tensor, BorrowsWithAnyStrides) {
  const Context context = test::poisoned_context();
  double memory[] = {1, 2, 3, 4, 5, 6};
  const auto reversed = Tensor<double>::borrow(context, memory + 5, {2, 3}, {-3, -1});
  EXPECT_EQ(reversed.at({0, 0}), 6);
  EXPECT_EQ(reversed.at({1, 2}), 1);
  EXPECT_FALSE(reversed.is_contiguous());
  const auto repeated = Tensor<double>::borrow(context, memory, {4, 2}, {0, 1});
  EXPECT_EQ(repeated.at({3, 1}), 2);
  EXPECT_TRUE((Tensor<double>::borrow(context, memory, {1, 3}, {99, 1}).is_contiguous()));
  EXPECT_EQ(context.arena().bytes_in_use(), 0u);
  EXPECT_TRUE(refuses([&] { Tensor<double>::borrow(context, memory, {2, 3}, {1}); }, {"[2, 3]", "[1]"}));
  EXPECT_TRUE(refuses([&] { Tensor<double>::borrow(context, nullptr, {2, 3}, {3, 1}); }, {"[2, 3]", "null"}));
  EXPECT_NO_THROW(Tensor<double>::borrow(context, nullptr, {2, 0}, {0, 1}));
}

// Mutants: a view of another rank drops an axis or reads a stride that is not there; an axis too far.
TEST(Tensor, RanksAndAxesAreChecked) {
  const Context context = test::poisoned_context();
  const auto tensor = Tensor<float>::full(context, {2, 3, 4, 5}, 0);
  EXPECT_TRUE(refuses([&] { tensor.view<3>(); }, {"expected 3 axes", "[2, 3, 4, 5]"}));
  EXPECT_TRUE(refuses([&] { tensor.view<5>(); }, {"expected 5 axes", "[2, 3, 4, 5]"}));
  EXPECT_TRUE(refuses([&] { Tensor<float>().view<2>(); }, {"expected 2 axes", "[]"}));
  EXPECT_EQ(tensor.view<4>().sizes[3], 5);
  EXPECT_TRUE(refuses([&] { tensor.size(4); }, {"[-4, 4)", "[2, 3, 4, 5]", "got 4"}));
  EXPECT_TRUE(refuses([&] { tensor.stride(-5); }, {"[-4, 4)", "got -5"}));
  EXPECT_EQ(tensor.size(-4), 2);
}

TEST(Tensor, ElementAccessIsChecked) {
  const Context context = test::poisoned_context();
  const auto tensor = Tensor<float>::full(context, {2, 3}, 0);
  EXPECT_TRUE(refuses([&] { tensor.at({0, 3}); }, {"3"}));
  EXPECT_TRUE(refuses([&] { tensor.at({-1, 0}); }, {"-1"}));
  EXPECT_TRUE(refuses([&] { tensor.at({0}); }, {"[2, 3]"}));
  const std::vector<float> five(5);
  EXPECT_TRUE(refuses([&] { Tensor<float>::from(context, {2, 3}, five); }, {"6", "5"}));
}

TEST(View, AddressesLikeTheTensor) {
  const Context context = test::poisoned_context();
  test::Random random(3);
  const auto tensor = test::with_layout(test::random_tensor<float>(context, {2, 3, 4}, random), test::Layout::reversed);
  const View<float, 3> view = tensor.view<3>();
  test::for_each_index(tensor.sizes(),
                       [&](const Dims& at) { EXPECT_EQ(&view(at[0], at[1], at[2]), &test::element(tensor, at)); });
  EXPECT_EQ(&view[1][2](3), &tensor.at({1, 2, 3}));
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(view.num_elements(), 24);
}

// Mutant: an offset added to no memory, as of an empty tensor: undefined, which shows in a constant expression.
TEST(View, PartOfNoMemoryIsNoMemory) {
  constexpr View<float, 3> none{nullptr, {2, 3, 4}, {12, 4, 1}};
  static_assert(none[1].data == nullptr && none[1][2].data == nullptr);
}

// The one loop under all element-wise operations: random sizes, layouts, broadcasts and threads.
// Mutants: axes merged that differ in one operand; the last piece of a row lost; stride 0 ignored.
TEST(ForEachElement, RandomShapesAgainstIndexing) {
  test::Random random(11);
  for (int round = 0; round < 300; ++round) {
    const Context context = test::poisoned_context({.threads = static_cast<int>(random.integer(1, 3))});
    Dims sizes;
    const std::int64_t rank = random.integer(0, 5);
    for (int axis = 0; axis < rank; ++axis) sizes.push_back(random.integer(round % 10 == 0 ? 0 : 1, 5));
    if (round % 25 == 0) sizes = {3, 70001};  // more than one piece to a row
    Dims narrow = sizes;
    for (int axis = 0; axis < sizes.rank(); ++axis) {
      if (random.coin(0.3)) narrow[axis] = 1;
    }
    const auto any_layout = [&](const Dims& s) {
      const auto plain = test::random_tensor<double>(context, s, random);
      if (s.rank() == 0 || s.product() == 0) return plain;
      return test::with_layout(plain, test::kLayouts[random.integer(0, 3)]);
    };
    const auto a = any_layout(sizes), b = any_layout(narrow), sum = any_layout(sizes);
    base::for_each_element([](double& s, const double& x, const double& y) { s = x + 2 * y; }, sum, a, b);
    test::for_each_index(sizes, [&](const Dims& at) {
      Dims from = at;
      for (int axis = 0; axis < at.rank(); ++axis) from[axis] = narrow[axis] == 1 ? 0 : at[axis];
      ASSERT_EQ(test::element(sum, at), test::element(a, at) + 2 * test::element(b, from)) << to_string(sizes);
    });
  }
}

}  // namespace
}  // namespace ennead
