// SPDX-License-Identifier: Apache-2.0
#include "io/raw_tensor.h"

#include <cstring>

namespace ennead::io {

RawTensor transposed(const RawTensor& matrix) {
  const std::size_t width = size_in_bytes(matrix.dtype);
  const auto rows = static_cast<std::size_t>(matrix.sizes[0]), columns = static_cast<std::size_t>(matrix.sizes[1]);
  RawTensor result{matrix.dtype, {matrix.sizes[1], matrix.sizes[0]}, std::vector<std::byte>(matrix.bytes.size())};
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      std::memcpy(result.bytes.data() + (column * rows + row) * width,
                  matrix.bytes.data() + (row * columns + column) * width, width);
    }
  }
  return result;
}

RawTensor concatenated(std::span<const RawTensor> tensors) {
  RawTensor result = tensors.front();
  for (const RawTensor& each : tensors.subspan(1)) {
    result.sizes[0] += each.sizes[0];
    result.bytes.insert(result.bytes.end(), each.bytes.begin(), each.bytes.end());
  }
  return result;
}

std::vector<RawTensor> split(const RawTensor& tensor, std::int64_t count) {
  std::vector<RawTensor> parts;
  const auto bytes = static_cast<std::ptrdiff_t>(tensor.bytes.size()) / count;
  for (std::int64_t part = 0; part < count; ++part) {
    const auto begin = tensor.bytes.begin() + part * bytes;
    parts.push_back({tensor.dtype, tensor.sizes, {begin, begin + bytes}});
    parts.back().sizes[0] /= count;
  }
  return parts;
}

}  // namespace ennead::io
