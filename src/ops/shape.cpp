// SPDX-License-Identifier: Apache-2.0
// The operations that move no numbers: other sizes and strides over the same memory.
#include <algorithm>
#include <optional>

#include "base/for_each_element.h"
#include "base/launch.h"
#include "ops/record.h"

namespace ennead {
namespace {

// Strides that read x's elements in row-major order as `sizes`, or nothing when one step would
// have to jump. Walks both shapes from the inside and matches runs of axes that x holds evenly.
std::optional<Dims> strides_for(const Dims& old_sizes, const Dims& old_strides, const Dims& sizes) {
  if (sizes.product() == 0) return contiguous_strides(sizes);
  Dims strides = sizes;
  int axis = sizes.rank() - 1;
  int old_axis = old_sizes.rank() - 1;
  while (axis >= 0) {
    if (sizes[axis] == 1) {
      strides[axis--] = 1;
      continue;
    }
    while (old_axis >= 0 && old_sizes[old_axis] == 1) --old_axis;
    if (old_axis < 0) return {};
    // One run of old axes that are evenly spaced: together they look like one axis.
    std::int64_t run = old_sizes[old_axis];
    const std::int64_t step = old_strides[old_axis];
    while (old_axis > 0 && (old_sizes[old_axis - 1] == 1 || old_strides[old_axis - 1] == step * run)) {
      run *= old_sizes[--old_axis];
    }
    --old_axis;
    std::int64_t covered = 1;
    while (axis >= 0 && covered < run) {
      strides[axis] = step * covered;
      covered *= sizes[axis--];
      if (run % covered != 0) return {};
    }
    if (covered != run) return {};
  }
  return strides;
}

// `wanted` with its one -1, if any, worked out.
Dims resolve_sizes(const Dims& wanted, std::int64_t elements) {
  Dims sizes = wanted;
  int open = -1;
  for (int axis = 0; axis < sizes.rank(); ++axis) {
    if (sizes[axis] == -1 && open < 0) {
      open = axis;
      sizes[axis] = 1;
    }
  }
  if (!check_sizes(sizes, 1).ok()) return wanted;
  const std::int64_t known = sizes.product();
  if (open >= 0 && known > 0) sizes[open] = elements / known;
  return sizes;
}

// Masks have no gradient.
template <class T>
inline constexpr bool kHasGradient = !std::is_same_v<T, bool>;

}  // namespace

int ops::normal_axis(const char* op, int axis, int rank) {
  if (axis < -rank || axis >= rank) {
    raise(sentence(op, ": expected an axis in [", -rank, ", ", rank, "), got ", axis));
  }
  return axis < 0 ? axis + rank : axis;
}

template <class T>
Tensor<T> ops::reshape(const Tensor<T>& x, const Dims& sizes, Where where) {
  return view(strides_for(x.sizes(), x.strides(), sizes) ? x : contiguous(x, where), sizes, where);
}

template <class T>
Tensor<T> ops::as_rows(const Tensor<T>& x, Where where) {
  const std::int64_t n = x.size(-1);
  return reshape(x, {n == 0 ? 0 : x.num_elements() / n, n}, where);
}

template <class T>
Tensor<T> view(const Tensor<T>& x, const Dims& sizes, Where) {
  require(ops::check_given("view", x));
  const Dims resolved = resolve_sizes(sizes, x.num_elements());
  if (!check_sizes(resolved, sizeof(T)).ok() || resolved.product() != x.num_elements()) {
    raise(sentence("view: expected sizes with the ", x.num_elements(), " elements of ", to_string(x.sizes()), ", got ",
                   to_string(sizes)));
  }
  const auto strides = strides_for(x.sizes(), x.strides(), resolved);
  if (!strides) {
    raise(sentence("view: expected sizes that fit the strides ", to_string(x.strides()), " of ", to_string(x.sizes()),
                   " without a copy, got ", to_string(resolved), "; call contiguous() first"));
  }
  Tensor<T> y(x.storage(), x.data(), resolved, *strides);
  if constexpr (kHasGradient<T>) {
    if (Tape* tape = ops::recording_tape(x.context(), x)) {
      tape->record<T>(y, {}, [input = x.variable, old = x.sizes()](Tape& t, const Tensor<T>& dy) {
        t.accumulate(input, ops::reshape(dy, old, Where::current()));
      });
    }
  }
  return y;
}

template <class T>
Tensor<T> permute(const Tensor<T>& x, const Dims& axes, Where) {
  require(ops::check_given("permute", x));
  Dims seen = axes;
  std::sort(&seen[0], &seen[0] + seen.rank());
  bool valid = axes.rank() == x.rank();
  for (int axis = 0; valid && axis < seen.rank(); ++axis) valid = seen[axis] == axis;
  if (!valid) {
    raise(sentence("permute: expected each axis of ", to_string(x.sizes()), " once, got ", to_string(axes)));
  }
  Dims sizes = axes;
  Dims strides = axes;
  Dims inverse = axes;
  for (int axis = 0; axis < axes.rank(); ++axis) {
    const int from = static_cast<int>(axes[axis]);
    sizes[axis] = x.sizes()[from];
    strides[axis] = x.strides()[from];
    inverse[from] = axis;
  }
  Tensor<T> y(x.storage(), x.data(), sizes, strides);
  if constexpr (kHasGradient<T>) {
    if (Tape* tape = ops::recording_tape(x.context(), x)) {
      tape->record<T>(y, {}, [input = x.variable, inverse](Tape& t, const Tensor<T>& dy) {
        t.accumulate(input, permute(dy, inverse));
      });
    }
  }
  return y;
}

template <class T>
Tensor<T> transpose(const Tensor<T>& x, int axis0, int axis1, Where where) {
  require(ops::check_given("transpose", x));
  Dims axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  std::swap(axes[ops::normal_axis("transpose", axis0, x.rank())], axes[ops::normal_axis("transpose", axis1, x.rank())]);
  return permute(x, axes, where);
}

template <class T>
Tensor<T> narrow(const Tensor<T>& x, int axis, std::int64_t start, std::int64_t length, Where) {
  require(ops::check_given("narrow", x));
  const int at = ops::normal_axis("narrow", axis, x.rank());
  if (start < 0 || length < 0 || start > x.size(at) - length) {
    raise(sentence("narrow: expected a range inside [0, ", x.size(at), ") on axis ", at, ", got start ", start,
                   " and length ", length));
  }
  Dims sizes = x.sizes();
  sizes[at] = length;
  T* const first = x.data() == nullptr ? nullptr : x.data() + start * x.stride(at);  // an empty tensor has no memory
  Tensor<T> y(x.storage(), first, sizes, x.strides());
  if constexpr (kHasGradient<T>) {
    if (Tape* tape = ops::recording_tape(x.context(), x)) {
      // The gradient stands where the part stood, zeros elsewhere.
      tape->record<T>(y, {}, [input = x.variable, whole = x.sizes(), at, start, length](Tape& t, const Tensor<T>& dy) {
        const auto dx = Tensor<T>::full(dy.context(), whole, T{0});
        if (!dy.context().dry_run()) {
          base::for_each_element([](T& to, const T& from) { to = from; }, narrow(dx, at, start, length), dy);
        }
        t.accumulate(input, dx);
      });
    }
  }
  return y;
}

template <class T>
Tensor<T> select(const Tensor<T>& x, int axis, std::int64_t index, Where where) {
  require(ops::check_given("select", x));
  const int at = ops::normal_axis("select", axis, x.rank());
  if (index < 0 || index >= x.size(at)) {
    raise(sentence("select: expected an index in [0, ", x.size(at), ") on axis ", at, ", got ", index));
  }
  Dims sizes;
  for (int other = 0; other < x.rank(); ++other) {
    if (other != at) sizes.push_back(x.size(other));
  }
  return view(narrow(x, at, index, 1, where), sizes, where);
}

template <class T>
std::vector<Tensor<T>> unbind(const Tensor<T>& x, int axis, Where where) {
  require(ops::check_given("unbind", x));
  const int at = ops::normal_axis("unbind", axis, x.rank());
  std::vector<Tensor<T>> slices;
  for (std::int64_t index = 0; index < x.size(at); ++index) slices.push_back(select(x, at, index, where));
  return slices;
}

template <class T>
Tensor<T> contiguous(const Tensor<T>& x, Where where) {
  require(ops::check_given("contiguous", x));
  if (x.is_contiguous()) return x;
  base::Launch launch(x.context(), "contiguous", where);
  Tensor<T> y = Tensor<T>::uninitialized(x.context(), x.sizes());
  launch.reads(x).writes(y);
  launch.run([&] { base::for_each_element([](T& to, const T& from) { to = from; }, y, x); });
  if constexpr (kHasGradient<T>) {
    if (Tape* tape = ops::recording_tape(x.context(), x)) {
      tape->record<T>(y, {}, [input = x.variable](Tape& t, const Tensor<T>& dy) { t.accumulate(input, dy); });
    }
  }
  return y;
}

#define ENNEAD_INSTANTIATE(T)                                                          \
  template Tensor<T> view(const Tensor<T>&, const Dims&, Where);                       \
  template Tensor<T> permute(const Tensor<T>&, const Dims&, Where);                    \
  template Tensor<T> transpose(const Tensor<T>&, int, int, Where);                     \
  template Tensor<T> narrow(const Tensor<T>&, int, std::int64_t, std::int64_t, Where); \
  template Tensor<T> select(const Tensor<T>&, int, std::int64_t, Where);               \
  template std::vector<Tensor<T>> unbind(const Tensor<T>&, int, Where);                \
  template Tensor<T> contiguous(const Tensor<T>&, Where);                              \
  template Tensor<T> ops::as_rows(const Tensor<T>&, Where);                            \
  template Tensor<T> ops::reshape(const Tensor<T>&, const Dims&, Where);
ENNEAD_INSTANTIATE(float)
ENNEAD_INSTANTIATE(double)
ENNEAD_INSTANTIATE(bool)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead
