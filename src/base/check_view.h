// SPDX-License-Identifier: Apache-2.0
// What a public function asks of a View before it follows its pointer.
#pragma once

#include <cstddef>

#include "ennead/error.h"
#include "ennead/tensor.h"
#include "ennead/view.h"

namespace ennead::base {

/// Strided memory without its types: what the checks below look at.
struct Extent {
  const void* data = nullptr;
  Dims sizes, strides;
  std::size_t element_bytes = 1;
};

template <class T, int Rank>
Extent extent_of(const View<T, Rank>& view) {
  return {view.data, Dims(std::span(view.sizes)), Dims(std::span(view.strides)), sizeof(T)};
}

/// Nothing when every element of `view` has an address: no negative size, no overflow, and memory where
/// there are elements. `op` and `name` say in the sentence which view of which function is meant.
Refusal check_readable(const char* op, const char* name, const Extent& view);

/// The same, and no two elements share memory. Each axis must step past all that the axes of smaller
/// strides reach, as the axes of every transposed, reversed or sliced tensor do.
Refusal check_writable(const char* op, const char* name, const Extent& view);

/// Nothing when `out` and `in` are seen to share no memory: they lie in different ranges, or at different
/// places within the steps of an axis that they have in common (columns of one matrix, say).
Refusal check_apart(const char* op, const char* out_name, const Extent& out, const char* in_name, const Extent& in);

}  // namespace ennead::base
