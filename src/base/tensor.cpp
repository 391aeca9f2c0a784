// SPDX-License-Identifier: Apache-2.0
#include "ennead/tensor.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check_view.h"

namespace ennead {

Dims::Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}

Dims::Dims(std::span<const std::int64_t> values) {
  for (std::int64_t value : values) push_back(value);
}

void Dims::push_back(std::int64_t value) {
  if (rank_ == kMaxRank) raise(sentence("tensor: expected at most ", kMaxRank, " axes, got more"));
  values_[static_cast<std::size_t>(rank_++)] = value;
}

std::int64_t Dims::product() const {
  std::int64_t product = 1;
  for (std::int64_t value : *this) product *= value;
  return product;
}

bool Dims::operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int axis = 0; axis < dims.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(dims[axis]);
  }
  return text + "]";
}

Dims contiguous_strides(const Dims& sizes) {
  Dims strides = sizes;
  std::int64_t stride = 1;
  for (int axis = sizes.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(sizes[axis], 1);
  }
  return strides;
}

Refusal check_sizes(const Dims& sizes, std::size_t element_bytes) {
  // Sizes are checked with zeros left out: [0, 2^62, 2^62] has no elements but strides that overflow.
  // What can be addressed: 2 GiB where pointers are of 32 bits.
  using Limits = std::numeric_limits<std::ptrdiff_t>;
  std::uint64_t bytes = element_bytes;
  for (std::int64_t size : sizes) {
    if (size < 0) return sentence("tensor: expected sizes of 0 or more, got ", to_string(sizes));
    if (size == 0) continue;
    if (bytes > static_cast<std::uint64_t>(Limits::max()) / static_cast<std::uint64_t>(size)) {
      return sentence("tensor: expected a size in bytes that fits ", Limits::digits, " bits, got ", to_string(sizes),
                      " of ", element_bytes, "-byte elements");
    }
    bytes *= static_cast<std::uint64_t>(size);
  }
  return {};
}

Storage::~Storage() {
  if (owned) context.arena().release(data, bytes);
}

template <class T>
Tensor<T>::Tensor(std::shared_ptr<Storage> storage, T* data, const Dims& sizes, const Dims& strides)
    : storage_(std::move(storage)), data_(data), sizes_(sizes), strides_(strides) {}

template <class T>
Tensor<T> Tensor<T>::uninitialized(const Context& context, const Dims& sizes) {
  require(check_sizes(sizes, sizeof(T)));
  auto storage = std::make_shared<Storage>(context);
  const auto bytes = static_cast<std::size_t>(sizes.product()) * sizeof(T);
  storage->data = context.arena().allocate(bytes);
  storage->bytes = bytes;
  T* data = reinterpret_cast<T*>(storage->data);
  return Tensor(std::move(storage), data, sizes, contiguous_strides(sizes));
}

template <class T>
Tensor<T> Tensor<T>::full(const Context& context, const Dims& sizes, T value) {
  Tensor tensor = uninitialized(context, sizes);
  if (!context.dry_run()) std::fill_n(tensor.data(), tensor.num_elements(), value);
  return tensor;
}

template <class T>
Tensor<T> Tensor<T>::from(const Context& context, const Dims& sizes, std::span<const T> values) {
  require(check_sizes(sizes, sizeof(T)));
  if (static_cast<std::int64_t>(values.size()) != sizes.product()) {
    raise(sentence("tensor: expected ", sizes.product(), " values for sizes ", to_string(sizes), ", got ",
                   values.size()));
  }
  Tensor tensor = uninitialized(context, sizes);
  if (!context.dry_run()) std::copy(values.begin(), values.end(), tensor.data());
  return tensor;
}

template <class T>
Tensor<T> Tensor<T>::borrow(const Context& context, T* data, const Dims& sizes, const Dims& strides) {
  require(check_sizes(sizes, sizeof(T)));
  if (strides.rank() != sizes.rank()) {
    raise(
        sentence("tensor: expected one stride for each of the sizes ", to_string(sizes), ", got ", to_string(strides)));
  }
  require(base::check_readable("tensor", "elements", {data, sizes, strides, sizeof(T)}));
  auto storage = std::make_shared<Storage>(context);
  storage->owned = false;
  return Tensor(std::move(storage), data, sizes, strides);
}

template <class T>
int Tensor<T>::from_front(int axis) const {
  if (axis < -rank() || axis >= rank()) {
    raise(sentence("tensor: expected an axis in [", -rank(), ", ", rank(), ") of sizes ", to_string(sizes_), ", got ",
                   axis));
  }
  return axis < 0 ? axis + rank() : axis;
}

template <class T>
void Tensor<T>::check_rank(int expected) const {
  if (rank() != expected) {
    raise(sentence("tensor: expected ", expected, " axes for a view of that rank, got sizes ", to_string(sizes_)));
  }
}

template <class T>
bool Tensor<T>::is_contiguous() const {
  std::int64_t stride = 1;
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (sizes_[axis] != 1 && strides_[axis] != stride) return false;
    stride *= sizes_[axis];
  }
  return true;
}

template <class T>
T& Tensor<T>::at(std::initializer_list<std::int64_t> index) const {
  if (static_cast<int>(index.size()) != rank()) {
    raise(sentence("tensor: expected ", rank(), " indices for sizes ", to_string(sizes_), ", got ", index.size()));
  }
  std::int64_t offset = 0;
  int axis = 0;
  for (std::int64_t i : index) {
    if (i < 0 || i >= sizes_[axis]) {
      raise(sentence("tensor: expected an index in [0, ", sizes_[axis], ") on axis ", axis, ", got ", i));
    }
    offset += i * strides_[axis++];
  }
  return data_[offset];
}

template class Tensor<float>;
template class Tensor<double>;
template class Tensor<bool>;
template class Tensor<PackedByte>;

}  // namespace ennead
