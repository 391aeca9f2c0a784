// SPDX-License-Identifier: Apache-2.0
#include "support/random.h"

#include <cmath>
#include <numbers>

namespace ennead::test {

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

Tensor<bool> random_mask(const Context& context, const Dims& sizes, Random& random, double probability) {
  auto mask = Tensor<bool>::uninitialized(context, sizes);
  for (std::int64_t i = 0; i < mask.num_elements(); ++i) mask.data()[i] = random.coin(probability);
  return mask;
}

}  // namespace ennead::test
