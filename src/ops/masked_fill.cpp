// SPDX-License-Identifier: Apache-2.0
#include "base/for_each_element.h"
#include "base/launch.h"
#include "ops/record.h"

namespace ennead {
namespace {

template <class T>
void fill_where(const Tensor<T>& x, const Tensor<bool>& mask, T value) {
  base::for_each_element([value](T& element, const bool& masked) { element = masked ? value : element; }, x, mask);
}

}  // namespace

template <class T>
void masked_fill_(Tensor<T>& x, const Tensor<bool>& mask, double value, Where where) {
  require(ops::check_given("masked_fill_", x));
  require(ops::check_given("masked_fill_", mask));
  bool fits = mask.rank() <= x.rank();
  for (int axis = 1; fits && axis <= mask.rank(); ++axis) {
    fits = mask.size(-axis) == 1 || mask.size(-axis) == x.size(-axis);
  }
  if (!fits) {
    raise(sentence("masked_fill_: expected a mask that broadcasts to ", to_string(x.sizes()), ", got ",
                   to_string(mask.sizes())));
  }
  if (x.storage()->saved_by_tape > 0) {
    raise(
        "masked_fill_: expected values that no recorded operation needs, got ones a derivative will read; copy first");
  }
  Tape* tape = ops::recording_tape(x.context(), x);
  if (tape != nullptr && x.storage().use_count() > 1) {
    raise("masked_fill_: expected the only handle to its memory while a tape records, got memory that others share");
  }
  base::Launch launch(x.context(), "masked_fill_", where);
  launch.reads(x).reads(mask).writes(x);
  launch.run([&] { fill_where(x, mask, static_cast<T>(value)); });
  if (tape != nullptr) {
    // What was overwritten has no influence any more: its gradient is zero.
    tape->record<T>(x, {}, [input = x.variable, mask](Tape& t, const Tensor<T>& dy) {
      Tensor<T> dx = Tensor<T>::uninitialized(dy.context(), dy.sizes());
      if (!dy.context().dry_run()) {
        base::for_each_element([](T& to, const T& from, const bool& masked) { to = masked ? T{0} : from; }, dx, dy,
                               mask);
      }
      t.accumulate(input, dx);
    });
  }
}

template void masked_fill_(Tensor<float>&, const Tensor<bool>&, double, Where);
template void masked_fill_(Tensor<double>&, const Tensor<bool>&, double, Where);

}  // namespace ennead
