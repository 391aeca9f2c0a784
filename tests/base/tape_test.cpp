// SPDX-License-Identifier: Apache-2.0
// The tape, and the derivative of every operation by central differences in float64.
#include "ennead/tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ennead/ops.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/gradients.h"
#include "support/random.h"

namespace ennead {
namespace {

using test::expect_gradients;
using test::Layout;
using test::refuses;
using D = Tensor<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class TapeOf : public testing::Test {
 protected:
  D random(const Dims& sizes, Layout layout = Layout::contiguous) {
    return test::with_layout(test::random_tensor<double>(context_, sizes, random_), layout);
  }

  Context context_ = test::poisoned_context({.threads = 2, .seed = 3});
  test::Random random_{17};
};

// Mutants: dW without its transposition; the bias summed over the wrong axis.
TEST_F(TapeOf, Linear) {
  for (const Layout layout : test::kLayouts) {
    D x = random({2, 3, 5}, layout), weight = random({4, 5}, layout), bias = random({4}, layout);
    expect_gradients(context_, {&x, &weight, &bias}, [&] { return Linear<double>(weight, bias)(x); });
    expect_gradients(context_, {&weight}, [&] { return Linear<double>(weight)(x); });
    expect_gradients(context_, {&x}, [&] { return Linear<double>(weight, bias)(x); });
  }
}

// Mutant: the sum over broadcast axes forgotten.
TEST_F(TapeOf, Matmul) {
  for (const Layout layout : test::kLayouts) {
    D a = random({2, 3, 4, 2}, layout), b = random({3, 2, 5}, layout), c = random({2, 1, 2, 3}, layout);
    expect_gradients(context_, {&a, &b}, [&] { return matmul(a, b); });
    expect_gradients(context_, {&a, &c}, [&] { return matmul(a, c); });
  }
  D square = random({3, 3});
  expect_gradients(context_, {&square}, [&] { return matmul(square, square); });  // both operands at once
}

TEST_F(TapeOf, Einsum) {
  D a = random({2, 3, 3}), b = random({3, 4}), c = random({1, 3, 2}, Layout::reversed);
  for (const char* equation : {"bii,ij->bj", "bij,jk->bik", "bij,ik->k", "bij,kl->bl", "bji,jk", "bjj,il->"}) {
    SCOPED_TRACE(equation);
    expect_gradients(context_, {&a, &b}, [&] { return einsum(equation, a, b); });
  }
  expect_gradients(context_, {&a, &c}, [&] { return einsum("...ij,...jk->...ki", a, c); });
}

// Mutant: softmax's derivative without the row's dot product.
TEST_F(TapeOf, ElementwiseAndSoftmax) {
  for (const Layout layout : test::kLayouts) {
    D x = random({2, 3, 4}, layout), row = random({4}, layout), column = random({3, 1}, layout);
    expect_gradients(context_, {&x}, [&] { return x * 2.5; });
    expect_gradients(context_, {&x}, [&] { return x / 2.5; });
    expect_gradients(context_, {&x, &row, &column}, [&] { return add(add(x, row), column); });
    expect_gradients(context_, {&x}, [&] { return add(x, x); });
    expect_gradients(context_, {&x}, [&] { return softmax(x); });
    D wide = random({2, 37}, layout);
    expect_gradients(context_, {&wide}, [&] { return softmax(wide); });
    expect_gradients(context_, {&x}, [&] { return dropout(softmax(x), {.p = 0.4, .training = true}); });
    expect_gradients(context_, {&x}, [&] { return softmax(softmax(x) * 3.0); });
  }
}

// K1: a row with nothing allowed has zero gradients, finite all the way.
TEST_F(TapeOf, MaskedFill) {
  D x = random({2, 3, 4});
  const auto masked = [&](double value) {
    D scores = x * 1.0;
    const bool mask[] = {false, true, true, false, false, false, false, false, true, true, true, true};
    masked_fill_(scores, Tensor<bool>::from(context_, {3, 4}, mask), value);
    return scores;
  };
  expect_gradients(context_, {&x}, [&] { return masked(5); });
  expect_gradients(context_, {&x}, [&] { return softmax(masked(-kInfinity)); });
}

TEST_F(TapeOf, Shapes) {
  for (const Layout layout : {Layout::contiguous, Layout::reversed}) {
    D x = random({2, 3, 4}, layout);
    expect_gradients(context_, {&x}, [&] { return view(contiguous(x), {4, 6}) * 2.0; });
    expect_gradients(context_, {&x}, [&] { return permute(x, {2, 0, 1}); });
    expect_gradients(context_, {&x}, [&] { return transpose(x, 0, 2); });
    expect_gradients(context_, {&x}, [&] { return narrow(x, 1, 1, 2); });
    expect_gradients(context_, {&x}, [&] { return select(x, -1, 2); });
    expect_gradients(context_, {&x}, [&] { return contiguous(transpose(x, 1, 2)); });
    D y = random({2, 2, 4}, layout);
    expect_gradients(context_, {&x, &y}, [&] {
      const auto parts = unbind(x, 1);
      const std::vector<D> all{y, x, narrow(x, 1, 0, 1)};
      const std::vector<D> two{parts[0], parts[2]};
      return matmul(cat<double>(all, 1), transpose(view(cat<double>(two, -1), {2, 2, 4}), 1, 2));
    });
  }
}

// One value used on several paths, one not at all.
TEST_F(TapeOf, ReuseAndNoUse) {
  D x = random({3, 3}), unused = random({2});
  expect_gradients(context_, {&x, &unused}, [&] { return add(matmul(softmax(x), x), transpose(x, 0, 1)); });
}

// B41: the gradient of a sum is one number read with strides 0.
TEST_F(TapeOf, GradientWithStrideZero) {
  D x = random({3, 4}), weight = random({2, 4});
  const auto one = D::full(context_, {1}, 1.0);
  const D expanded(one.storage(), one.data(), {3, 2}, {0, 0});
  const auto run = [&](const D& dy) {
    Tape tape;
    context_.set_tape(&tape);
    tape.watch(x);
    tape.watch(weight);
    tape.backward(softmax(Linear<double>(weight)(x) * 2.0), dy);
    context_.set_tape(nullptr);
    auto both = test::to_doubles(tape.gradient(x));
    const auto more = test::to_doubles(tape.gradient(weight));
    both.insert(both.end(), more.begin(), more.end());
    return both;
  };
  EXPECT_EQ(run(expanded), run(D::full(context_, {3, 2}, 1.0)));
}

// Mutant: the check of saved values removed, then softmax's derivative reads the filled ones.
TEST_F(TapeOf, InPlaceRefusedWhereADerivativeReads) {
  const auto mask = causal_mask(context_, 3);
  Tape tape;
  context_.set_tape(&tape);
  D x = random({3, 3});
  tape.watch(x);
  D weights = softmax(x);
  EXPECT_TRUE(refuses([&] { masked_fill_(weights, mask, 0); }, {"masked_fill_", "a derivative will read"}));
  context_.set_tape(nullptr);  // nobody records, yet what is recorded will be replayed
  EXPECT_TRUE(refuses([&] { masked_fill_(weights, mask, 0); }, {"masked_fill_", "a derivative will read"}));
  context_.set_tape(&tape);
  D product = matmul(weights, weights);
  EXPECT_TRUE(refuses([&] { masked_fill_(weights, mask, 0); }));
  D other = product;
  EXPECT_TRUE(refuses([&] { masked_fill_(product, mask, 0); }, {"masked_fill_"}));  // shared memory
  other = D();
  masked_fill_(product, mask, 0);
  tape.backward(product, D::full(context_, {3, 3}, 1));
  masked_fill_(weights, mask, 0);  // nobody needs it any more
  context_.set_tape(nullptr);
}

// B69. Mutant: a second replay doubles the gradients silently.
TEST_F(TapeOf, ReplaysOnce) {
  Tape tape;
  context_.set_tape(&tape);
  D x = random({2, 2});
  tape.watch(x);
  const D y = x * 2.0, ones = D::full(context_, {2, 2}, 1);
  EXPECT_TRUE(refuses([&] { tape.backward(y, D::full(context_, {4}, 1)); }, {"[2, 2]", "[4]"}));
  tape.backward(y, ones);
  EXPECT_TRUE(refuses([&] { tape.backward(y, ones); }, {"second"}));
  EXPECT_TRUE(refuses([&] { x * 2.0; }));
  context_.set_tape(nullptr);
  EXPECT_TRUE(test::close({2, 2, 2, 2}, tape.gradient(x), {}));
}

TEST_F(TapeOf, RefusesWhatItDoesNotKnow) {
  Tape tape;
  D x = random({2, 2}), y = random({2, 2}), empty;
  tape.watch(x);
  EXPECT_TRUE(refuses([&] { static_cast<void>(tape.gradient(y)); }));
  EXPECT_TRUE(refuses([&] { tape.backward(y, y); }));
  EXPECT_TRUE(refuses([&] { tape.watch(empty); }));
  EXPECT_TRUE(test::close({0, 0, 0, 0}, tape.gradient(x), {}));  // nothing depends on it yet
}

// Nothing is recorded, and no memory kept, for what no watched tensor reaches.
TEST_F(TapeOf, KeepsNothingItDoesNotNeed) {
  Tape tape;
  context_.set_tape(&tape);
  const D x = random({4, 4});
  const std::size_t before = context_.arena().bytes_in_use();
  for (int i = 0; i < 5; ++i) softmax(matmul(x, x));
  EXPECT_EQ(context_.arena().bytes_in_use(), before);
  context_.set_tape(nullptr);
}

// The handle outlives its tape; memory goes back when both are gone.
TEST_F(TapeOf, TapeMayGoFirst) {
  const std::size_t before = context_.arena().bytes_in_use();
  {
    D x = random({4, 4}), y;
    {
      Tape tape;
      context_.set_tape(&tape);
      tape.watch(x);
      y = softmax(matmul(x, x));
      context_.set_tape(nullptr);
    }
    masked_fill_(y, causal_mask(context_, 4), 0);
    Tape second;
    context_.set_tape(&second);
    second.watch(x);
    second.backward(x * 3.0, D::full(context_, {4, 4}, 1));
    EXPECT_TRUE(test::close(std::vector<double>(16, 3.0), second.gradient(x), {}));
    context_.set_tape(nullptr);
  }
  EXPECT_EQ(context_.arena().bytes_in_use(), before);
}

// Mutant: storages let go of only after a replay that went well.
TEST_F(TapeOf, AReplayThatFailsLetsGo) {
  const Context context(Context::Options{.threads = 1, .arena = {.limit_bytes = 1 << 12}});
  auto x = Tensor<double>::full(context, {8, 8}, 1);
  Tape tape;
  context.set_tape(&tape);
  tape.watch(x);
  const auto y = matmul(x, x);
  const auto dy = Tensor<double>::full(context, {8, 8}, 1);
  const auto rest = Tensor<double>::full(context, {320}, 1);  // leaves no room for the gradient
  EXPECT_THROW(tape.backward(y, dy), Error);
  context.set_tape(nullptr);
  EXPECT_EQ(x.storage()->saved_by_tape, 0);
}

}  // namespace
}  // namespace ennead
