// SPDX-License-Identifier: Apache-2.0
// Between the library's tensors and the oracle's vectors.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "ennead/tensor.h"

namespace ennead::test {

/// Calls body(index) for every index of a tensor of these sizes, last axis fastest.
template <class Body>
void for_each_index(const Dims& sizes, Body&& body) {
  const std::int64_t total = sizes.product();
  Dims at = sizes;
  for (std::int64_t i = 0; i < total; ++i) {
    std::int64_t rest = i;
    for (int axis = sizes.rank() - 1; axis >= 0; --axis) {
      at[axis] = rest % sizes[axis];
      rest /= sizes[axis];
    }
    body(static_cast<const Dims&>(at));
  }
}

template <class T>
T& element(const Tensor<T>& tensor, const Dims& at) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < tensor.rank(); ++axis) offset += at[axis] * tensor.strides()[axis];
  return tensor.data()[offset];
}

/// The elements in row-major order, whatever the strides; empty for no tensor.
template <class T>
std::vector<double> to_doubles(const Tensor<T>& tensor) {
  std::vector<double> values;
  if (tensor.empty()) return values;
  values.reserve(static_cast<std::size_t>(tensor.num_elements()));
  for_each_index(tensor.sizes(), [&](const Dims& at) { values.push_back(static_cast<double>(element(tensor, at))); });
  return values;
}

template <class T>
Tensor<T> from_doubles(const Context& context, const Dims& sizes, const std::vector<double>& values) {
  std::vector<T> converted;
  for (const double value : values) converted.push_back(static_cast<T>(value));
  return Tensor<T>::from(context, sizes, converted);
}

/// The same numbers in memory of their own, row-major, perhaps in another context.
template <class T>
Tensor<T> copy_of(const Tensor<T>& tensor, const Context& context) {
  auto copy = Tensor<T>::uninitialized(context, tensor.sizes());
  std::int64_t i = 0;
  for_each_index(tensor.sizes(), [&](const Dims& at) { copy.data()[i++] = element(tensor, at); });
  return copy;
}
template <class T>
Tensor<T> copy_of(const Tensor<T>& tensor) {
  return copy_of(tensor, tensor.context());
}

/// Are all elements the same bits? NaN equals NaN here, and 0 differs from -0.
template <class T>
bool same_bits(const Tensor<T>& a, const Tensor<T>& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  if (!(a.sizes() == b.sizes())) return false;
  bool same = true;
  for_each_index(a.sizes(),
                 [&](const Dims& at) { same = same && std::memcmp(&element(a, at), &element(b, at), sizeof(T)) == 0; });
  return same;
}

/// The same numbers behind odd strides.
enum class Layout {
  contiguous,
  transposed,  ///< the last two axes swapped in memory
  reversed,    ///< every axis backwards in memory
  padded       ///< rows longer than their contents, NaN between them
};
inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::transposed, Layout::reversed, Layout::padded};

template <class T>
Tensor<T> with_layout(const Tensor<T>& tensor, Layout layout) {
  if (layout == Layout::contiguous) return copy_of(tensor);
  Dims memory = tensor.sizes();
  const int rank = memory.rank();
  if (layout == Layout::transposed && rank >= 2) std::swap(memory[rank - 1], memory[rank - 2]);
  if (layout == Layout::padded) memory[rank - 1] += 3;
  auto storage = Tensor<T>::uninitialized(tensor.context(), memory);
  if (layout == Layout::padded) {
    for (std::int64_t i = 0; i < storage.num_elements(); ++i) storage.data()[i] = static_cast<T>(NAN);
  }
  Dims strides = storage.strides();
  T* data = storage.data();
  if (layout == Layout::transposed && rank >= 2) std::swap(strides[rank - 1], strides[rank - 2]);
  if (layout == Layout::reversed) {
    for (int axis = 0; axis < rank; ++axis) {
      data += (tensor.sizes()[axis] - 1) * strides[axis];
      strides[axis] = -strides[axis];
    }
  }
  Tensor<T> result(storage.storage(), data, tensor.sizes(), strides);
  for_each_index(tensor.sizes(), [&](const Dims& at) { element(result, at) = element(tensor, at); });
  return result;
}

}  // namespace ennead::test
