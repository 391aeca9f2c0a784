// SPDX-License-Identifier: Apache-2.0
// Random numbers for tests: the same on every machine, and not the library's own generator.
#pragma once

#include <cstdint>
#include <vector>

#include "ennead/tensor.h"

namespace ennead::test {

/// SplitMix64 (Steele, Lea and Flood, 2014): tiny, and good enough to pick shapes and values.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// In [low, high], both included.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin(double probability = 0.5) { return uniform() < probability; }
  /// N(0, 1), by Box and Muller.
  double normal();

  template <class T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

/// N(0, 1), rounded to T.
template <class T>
Tensor<T> random_tensor(const Context& context, const Dims& sizes, Random& random) {
  auto tensor = Tensor<T>::uninitialized(context, sizes);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.data()[i] = static_cast<T>(random.normal());
  return tensor;
}

/// true with the given probability.
Tensor<bool> random_mask(const Context& context, const Dims& sizes, Random& random, double probability = 0.5);

}  // namespace ennead::test
