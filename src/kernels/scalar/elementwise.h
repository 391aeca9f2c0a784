// SPDX-License-Identifier: Apache-2.0
// Softmax as plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/scratch_pieces.h"

namespace ennead::kernels::scalar {

template <class T>
constexpr T kBlocked = -std::numeric_limits<T>::infinity();

/// The maximum, except that NaN wins: a row with NaN in it must come out NaN.
template <class T>
T max_or_nan(T a, T b) {
  return (a >= b || a != a) ? a : b;
}

template <class T>
void softmax(Executor& executor, const SoftmaxArgs<T>& args) {
  using S = Sum<T>;
  constexpr std::int64_t kRows = 16;
  const std::int64_t rows = args.x.size(0), n = args.x.size(1);
  executor.run(ceil_div(rows, kRows), [&](std::int64_t task, int) {
    for (std::int64_t i = task * kRows; i < std::min(rows, (task + 1) * kRows); ++i) {
      S row_max = kBlocked<S>;
      for (std::int64_t j = 0; j < n; ++j) row_max = max_or_nan(row_max, static_cast<S>(args.x(i, j)));
      if (row_max == kBlocked<S>) {
        for (std::int64_t j = 0; j < n; ++j) args.y(i, j) = T(0);
        continue;
      }
      S row_sum = S(0);
      for (std::int64_t j = 0; j < n; ++j) {
        const S e = std::exp(static_cast<S>(args.x(i, j)) - row_max);
        args.y(i, j) = static_cast<T>(e);
        row_sum += e;
      }
      for (std::int64_t j = 0; j < n; ++j) {
        args.y(i, j) = static_cast<T>(static_cast<S>(args.y(i, j)) / row_sum);
      }
    }
  });
}

}  // namespace ennead::kernels::scalar
