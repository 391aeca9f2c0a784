// SPDX-License-Identifier: Apache-2.0
#include "base/for_each_element.h"
#include "base/launch.h"
#include "ops/record.h"

namespace ennead {
namespace {

// Where one tensor stands in the result.
struct Part {
  std::shared_ptr<TapeVariable> variable;
  std::int64_t start, length;
};

}  // namespace

template <class T>
Tensor<T> cat(std::span<const Tensor<T>> tensors, int axis, Where where) {
  if (tensors.empty()) raise("cat: expected at least one tensor, got none");
  const Tensor<T>& first = tensors.front();
  require(ops::check_given("cat", first));
  const int at = ops::normal_axis("cat", axis, first.rank());
  Dims sizes = first.sizes();
  sizes[at] = 0;
  for (const Tensor<T>& x : tensors) {
    require(ops::check_given("cat", x));
    Dims rest = x.sizes();
    if (x.rank() == first.rank()) rest[at] = first.size(at);
    if (!(rest == first.sizes())) {
      raise(sentence("cat: expected tensors like ", to_string(first.sizes()), " except on axis ", at, ", got ",
                     to_string(x.sizes())));
    }
    sizes[at] += x.size(at);
  }

  const Context& context = first.context();
  base::Launch launch(context, "cat", where);
  Tensor<T> y = Tensor<T>::uninitialized(context, sizes);
  launch.writes(y);
  Tape* tape = nullptr;
  std::vector<Part> parts;
  std::int64_t start = 0;
  for (const Tensor<T>& x : tensors) {
    launch.reads(x);
    launch.run(
        [&] { base::for_each_element([](T& to, const T& from) { to = from; }, narrow(y, at, start, x.size(at)), x); });
    parts.push_back({x.variable, start, x.size(at)});
    start += x.size(at);
    if (tape == nullptr) tape = ops::recording_tape(context, x);
  }
  if (tape != nullptr) {
    tape->record<T>(y, {}, [parts = std::move(parts), at](Tape& t, const Tensor<T>& dy) {
      for (const Part& part : parts) t.accumulate(part.variable, narrow(dy, at, part.start, part.length));
    });
  }
  return y;
}

template Tensor<float> cat(std::span<const Tensor<float>>, int, Where);
template Tensor<double> cat(std::span<const Tensor<double>>, int, Where);

}  // namespace ennead
