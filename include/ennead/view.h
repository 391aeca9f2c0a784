// SPDX-License-Identifier: Apache-2.0
// A pointer with sizes and strides: what public functions and kernels take.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

/// Strided memory owned by somebody else. Strides count elements and may be 0 (broadcast) or
/// negative (reversed). A View with data == nullptr stands for "not given".
template <class T, int Rank>
struct View {
  static constexpr int kRank = Rank;

  T* data = nullptr;
  std::array<std::int64_t, Rank> sizes{};
  std::array<std::int64_t, Rank> strides{};

  /// Row-major view of `data`.
  static constexpr View contiguous(T* data, std::array<std::int64_t, Rank> sizes) {
    View view{data, sizes, {}};
    std::int64_t stride = 1;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      view.strides[static_cast<std::size_t>(axis)] = stride;
      stride *= sizes[static_cast<std::size_t>(axis)];
    }
    return view;
  }

  constexpr std::int64_t size(int axis) const { return sizes[static_cast<std::size_t>(axis)]; }
  constexpr std::int64_t stride(int axis) const { return strides[static_cast<std::size_t>(axis)]; }

  constexpr std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (std::int64_t size : sizes) n *= size;
    return n;
  }

  /// The element at the given indices, one per axis.
  template <class... Index>
  requires(sizeof...(Index) == Rank) constexpr T& operator()(Index... index) const {
    const std::array<std::int64_t, Rank> at{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < Rank; ++axis) offset += at[axis] * strides[axis];
    return data[offset];
  }

  /// Fixes the first axis at `index`. Part of a View that is not given, or of an empty tensor, is not given either:
  /// there is no memory to point into.
  constexpr View<T, Rank - 1> operator[](std::int64_t index) const requires(Rank > 1) {
    View<T, Rank - 1> rest;
    rest.data = data == nullptr ? nullptr : data + index * strides[0];
    for (std::size_t axis = 1; axis < Rank; ++axis) {
      rest.sizes[axis - 1] = sizes[axis];
      rest.strides[axis - 1] = strides[axis];
    }
    return rest;
  }

  /// The same memory, read only.
  constexpr operator View<const T, Rank>() const requires(!std::is_const_v<T>) { return {data, sizes, strides}; }

  constexpr bool is_contiguous() const {
    std::int64_t stride = 1;
    for (std::size_t axis = Rank; axis-- > 0;) {
      if (sizes[axis] != 1 && strides[axis] != stride) return false;
      stride *= sizes[axis];
    }
    return true;
  }
};

}  // namespace ennead
ENNEAD_API_END
