// SPDX-License-Identifier: Apache-2.0
// Scaling and adding, element by element.
#include "base/for_each_element.h"
#include "base/launch.h"
#include "ops/record.h"

namespace ennead {
namespace {

template <class T, class F>
Tensor<T> map(const char* op, const Tensor<T>& x, Where where, F f) {
  base::Launch launch(x.context(), op, where);
  Tensor<T> y = Tensor<T>::uninitialized(x.context(), x.sizes());
  launch.reads(x).writes(y).flops(static_cast<double>(x.num_elements()));
  launch.run([&] { base::for_each_element([f](T& to, const T& from) { to = f(from); }, y, x); });
  return y;
}

}  // namespace

template <class T>
Tensor<T> operator*(const Tensor<T>& x, Scalar s) {
  require(ops::check_given("mul", x));
  const T factor = static_cast<T>(s.value);
  Tensor<T> y = map("mul", x, s.where, [factor](T value) { return value * factor; });
  if (Tape* tape = ops::recording_tape(x.context(), x)) {
    tape->record<T>(y, {}, [input = x.variable, s](Tape& t, const Tensor<T>& dy) { t.accumulate(input, dy * s); });
  }
  return y;
}

template <class T>
Tensor<T> operator/(const Tensor<T>& x, Scalar s) {
  require(ops::check_given("div", x));
  const T divisor = static_cast<T>(s.value);
  Tensor<T> y = map("div", x, s.where, [divisor](T value) { return value / divisor; });
  if (Tape* tape = ops::recording_tape(x.context(), x)) {
    tape->record<T>(y, {}, [input = x.variable, s](Tape& t, const Tensor<T>& dy) { t.accumulate(input, dy / s); });
  }
  return y;
}

template <class T>
Tensor<T> add(const Tensor<T>& a, const Tensor<T>& b, Where where) {
  require(ops::check_given("add", a, b));
  bool fits = b.rank() <= a.rank();
  for (int axis = 1; fits && axis <= b.rank(); ++axis) fits = b.size(-axis) == 1 || b.size(-axis) == a.size(-axis);
  if (!fits) {
    raise(sentence("add: expected a second operand that broadcasts to ", to_string(a.sizes()), ", got ",
                   to_string(b.sizes())));
  }
  base::Launch launch(a.context(), "add", where);
  Tensor<T> y = Tensor<T>::uninitialized(a.context(), a.sizes());
  launch.reads(a).reads(b).writes(y).flops(static_cast<double>(y.num_elements()));
  launch.run([&] { base::for_each_element([](T& to, const T& p, const T& q) { to = p + q; }, y, a, b); });
  if (Tape* tape = ops::recording_tape(a.context(), a, b)) {
    tape->record<T>(y, {}, [a = a.variable, b = b.variable, sizes = b.sizes()](Tape& t, const Tensor<T>& dy) {
      t.accumulate(a, dy);
      if (b != nullptr) t.accumulate(b, ops::sum_to(dy, sizes));
    });
  }
  return y;
}

#define ENNEAD_INSTANTIATE(T)                             \
  template Tensor<T> operator*(const Tensor<T>&, Scalar); \
  template Tensor<T> operator/(const Tensor<T>&, Scalar); \
  template Tensor<T> add(const Tensor<T>&, const Tensor<T>&, Where);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
