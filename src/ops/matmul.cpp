// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/for_each_element.h"
#include "base/launch.h"
#include "base/scratch.h"
#include "kernels/kernels.h"
#include "ops/record.h"

namespace ennead {
namespace {

// The leading axes of a and b broadcast together, then the product's own two.
Dims product_sizes(const Dims& a, const Dims& b) {
  const auto refuse = [&](const char* what) {
    raise(sentence("matmul: expected ", what, ", got ", to_string(a), " and ", to_string(b)));
  };
  if (a.rank() < 2 || b.rank() < 2) refuse("two tensors of at least two axes");
  if (a[a.rank() - 1] != b[b.rank() - 2]) refuse("[..., m, k] and [..., k, n] with the same k");
  const int rank = std::max(a.rank(), b.rank());
  Dims sizes;
  for (int axis = 0; axis < rank - 2; ++axis) {
    const int from_a = axis - (rank - a.rank());
    const int from_b = axis - (rank - b.rank());
    const std::int64_t size_a = from_a < 0 ? 1 : a[from_a];
    const std::int64_t size_b = from_b < 0 ? 1 : b[from_b];
    if (size_a != size_b && size_a != 1 && size_b != 1) refuse("leading axes that broadcast");
    sizes.push_back(size_a == 1 ? size_b : size_a);
  }
  sizes.push_back(a[a.rank() - 2]);
  sizes.push_back(b[b.rank() - 1]);
  return sizes;
}

// The strides of x's leading axes, read as those of a tensor of `rank` axes.
template <class T>
Dims leading_strides(const Tensor<T>& x, int rank) {
  Dims strides;
  for (int axis = 0; axis < rank - 2; ++axis) {
    const int from = axis - (rank - x.rank());
    strides.push_back(from < 0 || x.size(from) == 1 ? 0 : x.stride(from));
  }
  return strides;
}

}  // namespace

template <class T>
void ops::product_into(const Tensor<T>& a, const Tensor<T>& b, const Tensor<T>& c) {
  if (c.num_elements() == 0) return;
  // The kernel takes two batch axes. The leading axes are merged where all three operands allow
  // it; what is left beyond two is a loop around the kernel.
  Dims batch;
  for (int axis = 0; axis < c.rank() - 2; ++axis) batch.push_back(c.size(axis));
  const auto nest = base::make_loop_nest<3>(
      batch, {leading_strides(c, c.rank()), leading_strides(a, c.rank()), leading_strides(b, c.rank())});
  const int outer_axes = std::max(nest.rank - 2, 0);
  std::int64_t loops = 1;
  for (int axis = 0; axis < outer_axes; ++axis) loops *= nest.sizes[static_cast<std::size_t>(axis)];

  const auto kernel_view = [&](const Tensor<T>& x, std::size_t operand, std::int64_t loop) {
    View<T, 4> view{x.data(), {1, 1, x.size(-2), x.size(-1)}, {0, 0, x.stride(-2), x.stride(-1)}};
    for (int axis = outer_axes - 1; axis >= 0; --axis) {
      const auto at = static_cast<std::size_t>(axis);
      view.data += loop % nest.sizes[at] * nest.strides[operand][at];
      loop /= nest.sizes[at];
    }
    for (int axis = outer_axes; axis < nest.rank; ++axis) {
      const auto from = static_cast<std::size_t>(axis);
      const auto to = static_cast<std::size_t>(axis - nest.rank + 2);
      view.sizes[to] = nest.sizes[from];
      view.strides[to] = nest.strides[operand][from];
    }
    return view;
  };
  const Context& context = c.context();
  const auto& kernels = kernels::kernels_for<T>(context.isa());
  for (std::int64_t loop = 0; loop < loops; ++loop) {
    kernels::MatmulArgs<T> args;
    args.c = kernel_view(c, 0, loop);
    args.a = kernel_view(a, 1, loop);
    args.b = kernel_view(b, 2, loop);
    const base::Scratch scratch(context, kernels.matmul_scratch(args, context.executor().num_threads()));
    if (!context.dry_run()) kernels.matmul(context.executor(), args, scratch.data());
  }
}

template <class T>
Tensor<T> matmul(const Tensor<T>& a, const Tensor<T>& b, Where where) {
  require(ops::check_given("matmul", a, b));
  const Dims sizes = product_sizes(a.sizes(), b.sizes());
  base::Launch launch(a.context(), "matmul", where);
  Tensor<T> c = Tensor<T>::uninitialized(a.context(), sizes);
  launch.reads(a).reads(b).writes(c);
  launch.flops(2.0 * static_cast<double>(c.num_elements()) * static_cast<double>(a.size(-1)));
  ops::product_into(a, b, c);

  if (Tape* tape = ops::recording_tape(a.context(), a, b)) {
    // c = a b   =>   da = dc b^T,  db = a^T dc, each summed over what was broadcast
    tape->record<T>(c, {a.storage(), b.storage()}, [a, b](Tape& t, const Tensor<T>& dc) {
      if (t.tracks(a)) t.accumulate(a.variable, ops::sum_to(matmul(dc, transpose(b, -2, -1)), a.sizes()));
      if (t.tracks(b)) t.accumulate(b.variable, ops::sum_to(matmul(transpose(a, -2, -1), dc), b.sizes()));
    });
  }
  return c;
}

#define ENNEAD_INSTANTIATE(T)                                           \
  template Tensor<T> matmul(const Tensor<T>&, const Tensor<T>&, Where); \
  template void ops::product_into(const Tensor<T>&, const Tensor<T>&, const Tensor<T>&);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
