// SPDX-License-Identifier: Apache-2.0
// Shared by the operations: is a gradient wanted, and rows as the kernels want them.
#pragma once

#include "ennead/ops.h"
#include "ennead/tape.h"

namespace ennead::ops {

/// The context's tape when it tracks one of the inputs, else nullptr: nothing to record.
template <class... T>
Tape* recording_tape(const Context& context, const Tensor<T>&... inputs) {
  Tape* tape = context.tape();
  if (tape == nullptr || !(tape->tracks(inputs) || ...)) return nullptr;
  return tape;
}

/// Nothing when the operands are there, else which operation lacks one.
template <class... T>
Refusal check_given(const char* op, const Tensor<T>&... inputs) {
  if ((inputs.empty() || ...)) return sentence(op, ": expected tensors, got an empty handle");
  return {};
}

/// An axis counted from the end made one counted from the front. Throws Error when out of range.
int normal_axis(const char* op, int axis, int rank);

/// x [..., n] as [rows, n], without a copy where the strides allow it.
template <class T>
Tensor<T> as_rows(const Tensor<T>& x, Where where = Where::current());

/// x in other sizes, copied only where the strides do not allow a view.
template <class T>
Tensor<T> reshape(const Tensor<T>& x, const Dims& sizes, Where where);

/// Axes `axis` < `later`, of equal size, walked together as one axis in the place of the first.
template <class T>
Tensor<T> diagonal(const Tensor<T>& x, int axis, int later, Where where);

/// x summed along `axis`; the axis goes.
template <class T>
Tensor<T> sum_axis(const Tensor<T>& x, int axis, Where where = Where::current());

/// The gradient of broadcasting: `x` summed over the axes in which it is larger than `sizes`.
template <class T>
Tensor<T> sum_to(const Tensor<T>& x, const Dims& sizes);

/// c = a b, batched, all operands of rank >= 2; a and b broadcast over c's leading axes.
template <class T>
void product_into(const Tensor<T>& a, const Tensor<T>& b, const Tensor<T>& c);

}  // namespace ennead::ops
