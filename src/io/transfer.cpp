// SPDX-License-Identifier: Apache-2.0
#include "io/transfer.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "io/elements.h"
#include "io/text.h"

namespace ennead::io {
namespace {

/// Elements per piece: small enough for the second-level cache, large enough for one system call.
constexpr std::size_t kPiece = std::size_t{1} << 16;

Dims reversed(const Dims& dims) {
  Dims result;
  for (int axis = dims.rank() - 1; axis >= 0; --axis) result.push_back(dims[axis]);
  return result;
}

/// "[1, 0, 5]": where the element that is stored `place`-th stands.
std::string index_of(const StoredArray& info, std::uint64_t place) {
  Dims index = info.sizes;
  for (int i = 0; i < info.sizes.rank(); ++i) {
    const int axis = info.fortran_order ? i : info.sizes.rank() - 1 - i;
    const auto size = static_cast<std::uint64_t>(info.sizes[axis]);
    index[axis] = static_cast<std::int64_t>(place % size);
    place /= size;
  }
  return to_string(index);
}

/// Offsets of the elements of a strided tensor in row-major order.
class Walk {
 public:
  Walk(const Dims& sizes, const Dims& strides) : sizes_(sizes), strides_(strides), index_(sizes) {
    for (int axis = 0; axis < index_.rank(); ++axis) index_[axis] = 0;
  }

  std::int64_t next() {
    const std::int64_t offset = offset_;
    for (int axis = sizes_.rank() - 1; axis >= 0; --axis) {
      offset_ += strides_[axis];
      if (++index_[axis] < sizes_[axis]) break;
      offset_ -= sizes_[axis] * strides_[axis];
      index_[axis] = 0;
    }
    return offset;
  }

 private:
  Dims sizes_, strides_, index_;
  std::int64_t offset_ = 0;
};

}  // namespace

void require_io(const Refusal& refusal) {
  if (!refusal.ok()) throw FileError(refusal.reason());
}

void require_file(const std::string& path, const Refusal& what) {
  if (!what.ok()) throw FileError(sentence(in_quotes(path), ": ", what.reason()));
}

template <class T>
Tensor<T> read_tensor(const Context& context, const InputFile& file, const StoredArray& info) {
  require_file(file.path(), check_readable<T>(info.dtype));
  const Dims stored_sizes = info.fortran_order ? reversed(info.sizes) : info.sizes;
  require_file(file.path(), check_sizes(stored_sizes, sizeof(T)));
  require_file(file.path(), context.arena().check(static_cast<std::size_t>(stored_sizes.product()) * sizeof(T)));
  auto tensor = Tensor<T>::uninitialized(context, stored_sizes);
  const auto total = static_cast<std::size_t>(tensor.num_elements());
  const std::size_t element_bytes = size_in_bytes(info.dtype);
  std::vector<std::byte> bytes(std::min(total, kPiece) * element_bytes);
  for (std::size_t done = 0; done < total && !context.dry_run(); done += kPiece) {
    const std::size_t count = std::min(kPiece, total - done);
    const std::span<std::byte> piece = std::span(bytes).first(count * element_bytes);
    require_io(file.read(info.data_offset + done * element_bytes, piece));
    const auto too_large = decode<T>(info.dtype, info.big_endian, piece, std::span<T>(tensor.data() + done, count));
    if (too_large) {
      require_file(file.path(), sentence("expected values that fit ", name(DTypeOf<T>::value), ", got a larger ",
                                         name(info.dtype), " at ", index_of(info, done + *too_large)));
    }
  }
  require_io(file.check_unchanged());
  if (!info.fortran_order) return tensor;
  return Tensor<T>(tensor.storage(), tensor.data(), info.sizes, reversed(tensor.strides()));
}

template <class T>
void for_each_piece(const Tensor<T>& tensor, FunctionRef<void(std::span<const std::byte>)> consume) {
  const auto total = static_cast<std::size_t>(tensor.num_elements());
  const std::size_t largest = std::min(total, kPiece);
  const bool contiguous = tensor.is_contiguous();
  const auto gathered = contiguous ? nullptr : std::make_unique<T[]>(largest);
  std::vector<std::byte> bytes(largest * sizeof(T));
  Walk walk(tensor.sizes(), tensor.strides());
  for (std::size_t done = 0; done < total; done += kPiece) {
    const std::size_t count = std::min(kPiece, total - done);
    for (std::size_t i = 0; i < count && !contiguous; ++i) gathered[i] = tensor.data()[walk.next()];
    const T* elements = contiguous ? tensor.data() + done : gathered.get();
    const std::span<std::byte> piece = std::span(bytes).first(count * sizeof(T));
    encode<T>(std::span<const T>(elements, count), piece);
    consume(piece);
  }
}

template Tensor<float> read_tensor(const Context&, const InputFile&, const StoredArray&);
template Tensor<double> read_tensor(const Context&, const InputFile&, const StoredArray&);
template Tensor<bool> read_tensor(const Context&, const InputFile&, const StoredArray&);
template void for_each_piece(const Tensor<float>&, FunctionRef<void(std::span<const std::byte>)>);
template void for_each_piece(const Tensor<double>&, FunctionRef<void(std::span<const std::byte>)>);
template void for_each_piece(const Tensor<bool>&, FunctionRef<void(std::span<const std::byte>)>);

}  // namespace ennead::io
