// SPDX-License-Identifier: Apache-2.0
#include "base/for_each_element.h"
#include "ops/record.h"

namespace ennead {
namespace {

// Axis `later` folded into `axis`: one step there is a step along both.
template <class T>
Tensor<T> diagonal_view(const Tensor<T>& x, int axis, int later) {
  Dims sizes;
  Dims strides;
  for (int other = 0; other < x.rank(); ++other) {
    if (other == later) continue;
    sizes.push_back(x.size(other));
    strides.push_back(other == axis ? x.stride(axis) + x.stride(later) : x.stride(other));
  }
  return Tensor<T>(x.storage(), x.data(), sizes, strides);
}

}  // namespace

template <class T>
Tensor<T> ops::diagonal(const Tensor<T>& x, int axis, int later, Where) {
  Tensor<T> y = diagonal_view(x, axis, later);
  if (Tape* tape = recording_tape(x.context(), x)) {
    // Only the diagonal had a say.
    tape->record<T>(y, {}, [input = x.variable, whole = x.sizes(), axis, later](Tape& t, const Tensor<T>& dy) {
      const auto dx = Tensor<T>::full(dy.context(), whole, T{0});
      if (!dy.context().dry_run()) {
        base::for_each_element([](T& to, const T& from) { to = from; }, diagonal_view(dx, axis, later), dy);
      }
      t.accumulate(input, dx);
    });
  }
  return y;
}

template Tensor<float> ops::diagonal(const Tensor<float>&, int, int, Where);
template Tensor<double> ops::diagonal(const Tensor<double>&, int, int, Where);

}  // namespace ennead
