// SPDX-License-Identifier: Apache-2.0
// The most arithmetic plain loops can do: the yardstick of the scalar table.
#pragma once

#include <cstdint>

#include "ennead/dtype.h"

namespace ennead::kernels::scalar {

template <class T>
double peak_loop(std::int64_t iterations, Sum<T>* sink) {
  using S = Sum<T>;
  constexpr int kChains = 32;
  S sums[kChains] = {};
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (int c = 0; c < kChains; ++c) sums[c] = sums[c] * S(0.999) + S(0.001);
  }
  *sink = S(0);
  for (int c = 0; c < kChains; ++c) *sink += sums[c];
  return 2.0 * kChains * static_cast<double>(iterations);
}

}  // namespace ennead::kernels::scalar
