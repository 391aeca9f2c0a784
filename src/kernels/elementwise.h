// SPDX-License-Identifier: Apache-2.0
// Operations on the elements or rows of a tensor: what their kernels take.
#pragma once

#include <cstdint>

#include "ennead/view.h"

namespace ennead::kernels {

/// Softmax along the last axis. A row of -inf only gives zeros (no allowed key). NaN propagates.
template <class T>
struct SoftmaxArgs {
  View<const T, 2> x;  ///< [rows, n], any strides
  View<T, 2> y;        ///< [rows, n], any strides; may be x itself
};

}  // namespace ennead::kernels
