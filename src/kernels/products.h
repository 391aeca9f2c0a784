// SPDX-License-Identifier: Apache-2.0
// Products of matrices: what their kernels take.
#pragma once

#include <cstdint>

#include "ennead/dtype.h"
#include "ennead/packed_byte.h"
#include "ennead/view.h"

namespace ennead::kernels {

/// y[m, n] = sum_k x[m, k] * w[n, k] + bias[n]   (w in torch's [out, in] layout, packed)
template <class T>
struct LinearArgs {
  View<const T, 2> x;                  ///< [m, k], any strides
  const PackedByte* packed = nullptr;  ///< from pack_weights() of the same instruction set
  const T* bias = nullptr;             ///< [n] contiguous, or nullptr
  View<T, 2> y;                        ///< [m, n], any strides; overwritten
};

/// c[p, q, m, n] = alpha * sum_k a[p, q, m, k] * b[p, q, k, n]
/// Two batch axes; any strides, 0 included for a and b.
template <class T>
struct MatmulArgs {
  View<const T, 4> a;  ///< [p, q, m, k]
  View<const T, 4> b;  ///< [p, q, k, n]
  View<T, 4> c;        ///< [p, q, m, n]
  Sum<T> alpha = 1;
};

}  // namespace ennead::kernels
