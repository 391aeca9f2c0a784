// SPDX-License-Identifier: Apache-2.0
// One loop for everything that works element by element on strided tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>

#include "ennead/tensor.h"

namespace ennead::base {

/// The axes of N operands, as few as possible: axes of size 1 dropped, neighbours merged where
/// every operand allows it, the first operand's smallest stride innermost.
template <std::size_t N>
struct LoopNest {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{};
  std::array<std::array<std::int64_t, kMaxRank>, N> strides{};

  std::int64_t outer() const {
    std::int64_t product = 1;
    for (int axis = 0; axis + 1 < rank; ++axis) product *= sizes[static_cast<std::size_t>(axis)];
    return product;
  }
};

/// @param strides per operand, already 0 where it broadcasts
template <std::size_t N>
LoopNest<N> make_loop_nest(const Dims& sizes, const std::array<Dims, N>& strides) {
  std::array<int, kMaxRank> order{};
  int axes = 0;
  for (int axis = 0; axis < sizes.rank(); ++axis) {
    if (sizes[axis] != 1) order[static_cast<std::size_t>(axes++)] = axis;
  }
  std::stable_sort(order.begin(), order.begin() + axes,
                   [&](int a, int b) { return std::abs(strides[0][a]) > std::abs(strides[0][b]); });
  LoopNest<N> nest;
  for (int i = 0; i < axes; ++i) {
    const int axis = order[static_cast<std::size_t>(i)];
    bool merges = nest.rank > 0;
    const auto last = static_cast<std::size_t>(std::max(nest.rank - 1, 0));
    for (std::size_t n = 0; n < N && merges; ++n) {
      merges = nest.strides[n][last] == strides[n][axis] * sizes[axis];
    }
    const auto at = merges ? last : static_cast<std::size_t>(nest.rank++);
    nest.sizes[at] = merges ? nest.sizes[at] * sizes[axis] : sizes[axis];
    for (std::size_t n = 0; n < N; ++n) nest.strides[n][at] = strides[n][axis];
  }
  if (nest.rank == 0) {
    nest.rank = 1;
    nest.sizes[0] = 1;
  }
  return nest;
}

/// Strides of `x` when it is read as a tensor of `sizes` (numpy's broadcasting rule).
template <class T>
Dims broadcast_strides(const Tensor<T>& x, const Dims& sizes) {
  Dims strides = sizes;
  for (int axis = 0; axis < sizes.rank(); ++axis) {
    const int from = axis - (sizes.rank() - x.rank());
    strides[axis] = from < 0 || x.size(from) == 1 ? 0 : x.stride(from);
  }
  return strides;
}

/// f(first[i], rest[i]...) for every element of `first`; the others broadcast to its sizes. Runs on
/// the executor of first's context; f must not care about order.
template <class F, class First, class... Rest>
void for_each_element(F f, const Tensor<First>& first, const Tensor<Rest>&... rest) {
  constexpr std::size_t kOperands = 1 + sizeof...(Rest);
  if (first.num_elements() == 0) return;
  const auto nest =
      make_loop_nest<kOperands>(first.sizes(), {first.strides(), broadcast_strides(rest, first.sizes())...});
  const auto inner = static_cast<std::size_t>(nest.rank - 1);

  // Pieces large enough to be worth handing out, small enough to share evenly.
  constexpr std::int64_t kPiece = 1 << 15;
  const std::int64_t inner_size = nest.sizes[inner];
  const std::int64_t pieces_per_row = std::max<std::int64_t>(1, inner_size / kPiece);
  const std::int64_t rows_per_task = std::max<std::int64_t>(1, kPiece / std::max<std::int64_t>(1, inner_size));
  const std::int64_t rows = nest.outer();
  const std::int64_t row_tasks = (rows + rows_per_task - 1) / rows_per_task;

  bool unit = true;
  for (std::size_t n = 0; n < kOperands; ++n) unit = unit && nest.strides[n][inner] == 1;

  const auto run_row = [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, kOperands> offset{};
    for (int axis = nest.rank - 2; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      const std::int64_t index = row % nest.sizes[a];
      row /= nest.sizes[a];
      for (std::size_t n = 0; n < kOperands; ++n) offset[n] += index * nest.strides[n][a];
    }
    const auto go = [&]<std::size_t... I>(std::index_sequence<I...>, const auto&... operand) {
      const auto pointers = std::tuple(operand.data() + offset[I]...);
      if (unit) {
        for (std::int64_t i = begin; i < end; ++i) f(std::get<I>(pointers)[i]...);
      } else {
        for (std::int64_t i = begin; i < end; ++i) f(std::get<I>(pointers)[i * nest.strides[I][inner]]...);
      }
    };
    go(std::make_index_sequence<kOperands>{}, first, rest...);
  };

  first.context().executor().run(row_tasks * pieces_per_row, [&](std::int64_t task, int) {
    const std::int64_t piece = task % pieces_per_row;
    const std::int64_t begin = inner_size * piece / pieces_per_row;
    const std::int64_t end = inner_size * (piece + 1) / pieces_per_row;
    const std::int64_t first_row = task / pieces_per_row * rows_per_task;
    const std::int64_t last_row = std::min(rows, first_row + rows_per_task);
    for (std::int64_t row = first_row; row < last_row; ++row) run_row(row, begin, end);
  });
}

}  // namespace ennead::base
