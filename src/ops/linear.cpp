// SPDX-License-Identifier: Apache-2.0
#include "base/launch.h"
#include "base/scratch.h"
#include "kernels/kernels.h"
#include "ops/record.h"

namespace ennead {
namespace {

// The same values without their place on the tape, for helpers that would record themselves.
template <class T>
Tensor<T> detached(Tensor<T> x) {
  x.variable = nullptr;
  return x;
}

}  // namespace

template <class T>
Linear<T>::Linear(const Tensor<T>& weight, const Tensor<T>& bias, Where where) : weight_(weight), bias_(bias) {
  require(ops::check_given("linear", weight));
  if (weight.rank() != 2) raise(sentence("linear: expected a weight [out, in], got ", to_string(weight.sizes())));
  if (!bias.empty() && !(bias.sizes() == Dims{weight.size(0)})) {
    raise(sentence("linear: expected a bias [", weight.size(0), "], got ", to_string(bias.sizes())));
  }
  const Context& context = weight.context();
  const auto& kernels = kernels::kernels_for<T>(context.isa());
  base::Launch launch(context, "pack", where);
  packed_ = Tensor<PackedByte>::uninitialized(
      context, {static_cast<std::int64_t>(kernels.packed_bytes(weight.size(0), weight.size(1)))});
  launch.reads(weight).writes(packed_);
  launch.run([&] { kernels.pack_weights(weight.template view<2>(), packed_.data()); });
}

template <class T>
Tensor<T> Linear<T>::operator()(const Tensor<T>& x, Where where) const {
  require(ops::check_given("linear", x, weight_));
  const std::int64_t in = weight_.size(1);
  const std::int64_t out = weight_.size(0);
  if (x.rank() < 1 || x.size(-1) != in) {
    raise(sentence("linear: expected x [..., ", in, "], got ", to_string(x.sizes())));
  }
  const Context& context = x.context();
  // Copies that odd strides need are operations of their own, before this one.
  const Tensor<T> x_rows = in == 0 ? detached(x) : ops::as_rows(detached(x), where);
  const Tensor<T> bias = bias_.empty() ? bias_ : contiguous(detached(bias_), where);

  base::Launch launch(context, "linear", where);
  Dims sizes = x.sizes();
  sizes[x.rank() - 1] = out;
  Tensor<T> y = Tensor<T>::uninitialized(context, sizes);
  launch.reads(x).reads(weight_).writes(y);
  launch.flops(2.0 * static_cast<double>(y.num_elements()) * static_cast<double>(in));

  const std::int64_t rows = out == 0 ? 0 : y.num_elements() / out;
  kernels::LinearArgs<T> args;
  args.x = {x_rows.data(), {rows, in}, {x_rows.stride(0), x_rows.stride(-1)}};
  args.packed = packed_.data();
  args.bias = bias.data();
  args.y = View<T, 2>::contiguous(y.data(), {rows, out});
  // Packed weights fit one instruction set: theirs, whatever x was made with.
  const auto& kernels = kernels::kernels_for<T>(packed_.context().isa());
  Executor& executor = context.executor();
  {
    const base::Scratch scratch(context, kernels.linear_scratch(args, executor.num_threads()));
    launch.run([&] { kernels.linear(executor, args, scratch.data()); });
  }

  if (Tape* tape = ops::recording_tape(context, x, weight_, bias_)) {
    // y = x W^T + b   =>   dx = dy W,  dW = dy^T x,  db = dy summed over rows
    tape->record<T>(y, {x.storage(), weight_.storage()},
                    [x, weight = weight_, bias = bias_](Tape& t, const Tensor<T>& dy) {
                      const Tensor<T> dy_rows = ops::as_rows(dy);
                      if (t.tracks(x)) t.accumulate(x.variable, view(matmul(dy_rows, weight), x.sizes()));
                      if (t.tracks(weight)) {
                        t.accumulate(weight.variable, matmul(transpose(dy_rows, 0, 1), ops::as_rows(x)));
                      }
                      if (t.tracks(bias)) t.accumulate(bias.variable, ops::sum_to(dy_rows, bias.sizes()));
                    });
  }
  return y;
}

template class Linear<float>;
template class Linear<double>;

}  // namespace ennead
