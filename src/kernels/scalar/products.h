// SPDX-License-Identifier: Apache-2.0
// Products of matrices as plain loops: what the vectorised kernels must compute.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/scratch_pieces.h"

namespace ennead::kernels::scalar {

/// Output columns summed at a time, so that the inner loop runs along a row of b.
constexpr std::int64_t kColumns = 64;
/// Rows of output that make one task.
constexpr std::int64_t kRowsPerTask = 16;

/// sums[j] = start[j] + sum_k x[k] * w[k, j], for `columns` <= kColumns columns; start may be nullptr (zeros).
template <class T>
void row_times_matrix(View<const T, 1> x, View<const T, 2> w, const T* start, std::int64_t columns, Sum<T>* sums) {
  for (std::int64_t j = 0; j < columns; ++j) sums[j] = start ? static_cast<Sum<T>>(start[j]) : Sum<T>(0);
  for (std::int64_t k = 0; k < x.size(0); ++k) {
    const auto factor = static_cast<Sum<T>>(x(k));
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += factor * static_cast<Sum<T>>(w(k, j));
  }
}

template <class T>
std::size_t packed_bytes(std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(n * k) * sizeof(T);
}

/// Packed weights are the transpose, row major: [k, n].
template <class T>
void pack_weights(View<const T, 2> w, PackedByte* packed) {
  T* to = reinterpret_cast<T*>(packed);
  for (std::int64_t k = 0; k < w.size(1); ++k) {
    for (std::int64_t n = 0; n < w.size(0); ++n) *to++ = w(n, k);
  }
}

template <class T>
std::size_t linear_scratch(const LinearArgs<T>&, int) {
  return 0;
}

template <class T>
void linear(Executor& executor, const LinearArgs<T>& args, std::byte*) {
  const std::int64_t rows = args.y.size(0), n = args.y.size(1), depth = args.x.size(1);
  const T* const packed = reinterpret_cast<const T*>(args.packed);
  executor.run(ceil_div(rows, kRowsPerTask), [&](std::int64_t task, int) {
    Sum<T> sums[kColumns];
    const std::int64_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (std::int64_t m = task * kRowsPerTask; m < end; ++m) {
      for (std::int64_t j0 = 0; j0 < n; j0 += kColumns) {
        const std::int64_t columns = std::min(kColumns, n - j0);
        const View<const T, 2> w{packed + j0, {depth, columns}, {n, 1}};
        row_times_matrix(args.x[m], w, args.bias ? args.bias + j0 : nullptr, columns, sums);
        for (std::int64_t j = 0; j < columns; ++j) args.y(m, j0 + j) = static_cast<T>(sums[j]);
      }
    }
  });
}

template <class T>
std::size_t matmul_scratch(const MatmulArgs<T>&, int) {
  return 0;
}

template <class T>
void matmul(Executor& executor, const MatmulArgs<T>& args, std::byte*) {
  const std::int64_t q_size = args.c.size(1), rows = args.c.size(2), n = args.c.size(3);
  const std::int64_t tasks_per_item = ceil_div(rows, kRowsPerTask);
  executor.run(args.c.size(0) * q_size * tasks_per_item, [&](std::int64_t task, int) {
    const std::int64_t item = task / tasks_per_item, m0 = task % tasks_per_item * kRowsPerTask;
    const View<const T, 2> a = args.a[item / q_size][item % q_size];
    const View<const T, 2> b = args.b[item / q_size][item % q_size];
    const View<T, 2> c = args.c[item / q_size][item % q_size];
    Sum<T> sums[kColumns];
    for (std::int64_t m = m0; m < std::min(rows, m0 + kRowsPerTask); ++m) {
      for (std::int64_t j0 = 0; j0 < n; j0 += kColumns) {
        const std::int64_t columns = std::min(kColumns, n - j0);
        View<const T, 2> b_columns = b;
        b_columns.data += j0 * b.stride(1);
        row_times_matrix(a[m], b_columns, static_cast<const T*>(nullptr), columns, sums);
        for (std::int64_t j = 0; j < columns; ++j) c(m, j0 + j) = static_cast<T>(args.alpha * sums[j]);
      }
    }
  });
}

}  // namespace ennead::kernels::scalar
