// SPDX-License-Identifier: Apache-2.0
#include "ops/record.h"

namespace ennead {

// As a product with a row of ones that is one number read with stride 0:
// the kernels then add in their fixed order and with their speed.
template <class T>
Tensor<T> ops::sum_axis(const Tensor<T>& x, int at, Where where) {
  const Tensor<T> one = Tensor<T>::full(x.context(), {1}, T{1});
  const Tensor<T> ones(one.storage(), one.data(), {1, x.size(at)}, {0, 0});
  Dims order;
  Dims rest;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis == at) continue;
    order.push_back(axis);
    rest.push_back(x.size(axis));
  }
  if (order.rank() == 0) return view(matmul(ones, view(x, {x.size(0), 1}), where), {});
  // [..., at, last]: the last of the other axes becomes the columns of the product.
  const std::int64_t last = order[order.rank() - 1];
  order[order.rank() - 1] = at;
  order.push_back(last);
  return view(matmul(ones, permute(x, order), where), rest);
}

template <class T>
Tensor<T> ops::sum_to(const Tensor<T>& x, const Dims& sizes) {
  Tensor<T> sum = x;
  while (sum.rank() > sizes.rank()) sum = sum_axis(sum, 0);
  for (int axis = 0; axis < sizes.rank(); ++axis) {
    if (sum.size(axis) == sizes[axis]) continue;
    Dims kept = sum.sizes();
    kept[axis] = 1;
    sum = view(sum_axis(sum, axis), kept);
  }
  return sum;
}

template Tensor<float> ops::sum_axis(const Tensor<float>&, int, Where);
template Tensor<double> ops::sum_axis(const Tensor<double>&, int, Where);
template Tensor<float> ops::sum_to(const Tensor<float>&, const Dims&);
template Tensor<double> ops::sum_to(const Tensor<double>&, const Dims&);

}  // namespace ennead
