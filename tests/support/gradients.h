// SPDX-License-Identifier: Apache-2.0
// Gradients judged by central differences in float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "ennead/tape.h"
#include "oracle/compare.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead::test {

/// d(sum(dy * y))/dx for every element of x, by (f(x + h) - f(x - h)) / 2h. `y` runs the function
/// without a tape and returns its result in row-major order; x is changed in place and restored.
template <class Y>
std::vector<double> numeric_gradient(const Tensor<double>& x, const std::vector<double>& dy, Y&& y) {
  constexpr double kStep = 1e-5;  // truncation and rounding both leave about 1e-10
  std::vector<double> gradient;
  for_each_index(x.sizes(), [&](const Dims& at) {
    double& value = element(x, at);
    const double before = value;
    value = before + kStep;
    const std::vector<double> above = y();
    value = before - kStep;
    const std::vector<double> below = y();
    value = before;
    double slope = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) slope += dy[i] * (above[i] - below[i]);
    gradient.push_back(slope / (2 * kStep));
  });
  return gradient;
}

/// Runs `f` (which reads `inputs` and returns a tensor) under a tape, and compares the gradient of
/// every input with central differences, for dy in every layout.
template <class F>
void expect_gradients(const Context& context, const std::vector<Tensor<double>*>& inputs, F&& f,
                      std::uint64_t seed = 1) {
  Random random(seed);
  const Tensor<double> plain = f();
  for (const Layout layout : kLayouts) {
    const auto dy = plain.rank() == 0 || plain.num_elements() == 0
                        ? random_tensor<double>(context, plain.sizes(), random)
                        : with_layout(random_tensor<double>(context, plain.sizes(), random), layout);
    Tape tape;
    context.set_tape(&tape);
    for (Tensor<double>* x : inputs) tape.watch(*x);
    const Tensor<double> y = f();
    tape.backward(y, dy);
    context.set_tape(nullptr);
    std::vector<std::vector<double>> gradients;
    for (Tensor<double>* x : inputs) {
      gradients.push_back(to_doubles(tape.gradient(*x)));
      EXPECT_EQ(to_string(tape.gradient(*x).sizes()), to_string(x->sizes()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto expected = numeric_gradient(*inputs[i], to_doubles(dy), [&] { return to_doubles(f()); });
      double scale = 1;
      for (const double value : expected) scale = std::max(scale, std::abs(value));
      const auto comparison = oracle::compare(expected, gradients[i], 1, {1e-8 * scale, 0});
      EXPECT_TRUE(comparison.ok) << "input " << i << ": " << oracle::describe(comparison);
    }
  }
}

}  // namespace ennead::test
