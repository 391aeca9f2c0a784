// SPDX-License-Identifier: Apache-2.0
#include "base/launch.h"
#include "kernels/kernels.h"
#include "ops/record.h"

namespace ennead {
namespace {

// dx = y * (dy - sum_j y_j dy_j), row by row.
template <class T>
void softmax_backward(Executor& executor, View<const T, 2> y, View<const T, 2> dy, View<T, 2> dx) {
  const std::int64_t n = y.size(1);
  executor.run(y.size(0), [&](std::int64_t row, int) {
    // Sixteen partial sums: a fixed order of addition that the compiler can still vectorise.
    constexpr std::int64_t kLanes = 16;
    std::array<T, kLanes> partial{};
    const T* y_row = &y(row, 0);
    const T* dy_row = &dy(row, 0);
    T* dx_row = &dx(row, 0);
    std::int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        partial[static_cast<std::size_t>(lane)] += y_row[j + lane] * dy_row[j + lane];
      }
    }
    T dot = 0;
    for (T sum : partial) dot += sum;
    for (; j < n; ++j) dot += y_row[j] * dy_row[j];
    for (j = 0; j < n; ++j) dx_row[j] = y_row[j] * (dy_row[j] - dot);
  });
}

}  // namespace

template <class T>
Tensor<T> softmax(const Tensor<T>& x, Where where) {
  require(ops::check_given("softmax", x));
  if (x.rank() < 1) raise("softmax: expected at least one axis, got a single number");
  const Context& context = x.context();
  Tensor<T> plain = x;
  plain.variable = nullptr;
  const Tensor<T> rows = ops::as_rows(plain, where);

  base::Launch launch(context, "softmax", where);
  Tensor<T> y = Tensor<T>::uninitialized(context, x.sizes());
  launch.reads(x).writes(y);
  // Per element: subtract the maximum, exponential, sum, divide.
  launch.flops(4.0 * static_cast<double>(x.num_elements()));
  launch.run([&] {
    kernels::SoftmaxArgs<T> args;
    args.x = rows.template view<2>();
    args.y = View<T, 2>::contiguous(y.data(), {rows.size(0), rows.size(1)});
    kernels::kernels_for<T>(context.isa()).softmax(context.executor(), args);
  });

  if (Tape* tape = ops::recording_tape(context, x)) {
    // The result is what the derivative needs; a handle without its variable, or it would own itself.
    const Tensor<T> saved = y;
    tape->record<T>(y, {y.storage()}, [input = x.variable, y = saved](Tape& t, const Tensor<T>& dy) {
      Tensor<T> dx = Tensor<T>::uninitialized(y.context(), y.sizes());
      const Tensor<T> y_rows = ops::as_rows(y);
      const Tensor<T> dy_rows = ops::as_rows(contiguous(dy));
      if (!y.context().dry_run() && y.num_elements() > 0) {
        softmax_backward<T>(y.context().executor(), y_rows.template view<2>(), dy_rows.template view<2>(),
                            ops::as_rows(dx).template view<2>());
      }
      t.accumulate(input, dx);
    });
  }
  return y;
}

template Tensor<float> softmax(const Tensor<float>&, Where);
template Tensor<double> softmax(const Tensor<double>&, Where);

}  // namespace ennead
