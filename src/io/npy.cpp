// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "ennead/io.h"
#include "io/elements.h"
#include "io/file.h"
#include "io/npy_header.h"
#include "io/text.h"
#include "io/transfer.h"

namespace ennead {
namespace {

StoredArray read_header(const io::InputFile& file) {
  std::vector<std::byte> header(static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), io::kNpyPreamble)));
  io::require_io(file.read(0, header));
  std::uint64_t data_offset = 0;
  io::require_file(file.path(), io::find_npy_data(header, data_offset));
  header.resize(static_cast<std::size_t>(std::min(file.size(), data_offset)));
  io::require_io(file.read(0, header));
  StoredArray info;
  io::require_file(file.path(), io::parse_npy_header(header, info));
  const std::uint64_t expected = *io::checked_bytes({info.sizes.begin(), info.sizes.end()}, size_in_bytes(info.dtype));
  const std::uint64_t got = file.size() - info.data_offset;
  if (got != expected) {
    io::require_file(file.path(), sentence("expected ", expected, " bytes of data for sizes ", to_string(info.sizes),
                                           " of ", name(info.dtype), ", got ", got));
  }
  return info;
}

}  // namespace

StoredArray read_npy_info(const std::string& path) {
  io::InputFile file;
  io::require_io(file.open(path));
  return read_header(file);
}

template <class T>
Tensor<T> read_npy(const Context& context, const std::string& path) {
  io::InputFile file;
  io::require_io(file.open(path));
  return io::read_tensor<T>(context, file, read_header(file));
}

template <class T>
struct NpyWriter<T>::State {
  io::OutputFile file;
  Dims sizes;
  std::int64_t rows_left = 0;
};

template <class T>
NpyWriter<T>::NpyWriter(const std::string& path, const Dims& sizes) : state_(std::make_unique<State>()) {
  io::require_io(state_->file.open(path));
  state_->sizes = sizes;
  state_->rows_left = sizes.rank() == 0 ? 1 : sizes[0];
  const std::string header = io::format_npy_header(io::DTypeOf<T>::value, sizes);
  io::require_io(state_->file.write(std::as_bytes(std::span(header))));
}

template <class T>
NpyWriter<T>::~NpyWriter() = default;
template <class T>
NpyWriter<T>::NpyWriter(NpyWriter&&) noexcept = default;
template <class T>
NpyWriter<T>& NpyWriter<T>::operator=(NpyWriter&&) noexcept = default;

template <class T>
void NpyWriter<T>::append(const Tensor<T>& rows) {
  Dims expected = state_->sizes;
  const std::int64_t count = rows.rank() == 0 ? 1 : rows.size(0);
  if (expected.rank() > 0) expected[0] = count;
  if (!(rows.sizes() == expected) || count > state_->rows_left) {
    io::require_file(state_->file.path(),
                     sentence("expected at most ", state_->rows_left, " more rows of a tensor of sizes ",
                              to_string(state_->sizes), ", got sizes ", to_string(rows.sizes())));
  }
  state_->rows_left -= count;
  io::for_each_piece(rows, [&](std::span<const std::byte> piece) { io::require_io(state_->file.write(piece)); });
}

template <class T>
void NpyWriter<T>::flush() {
  if (state_->rows_left != 0) {
    io::require_file(state_->file.path(),
                     sentence("expected ", state_->rows_left, " more rows before the end, got none"));
  }
  io::require_io(state_->file.flush());
}

template <class T>
void NpyWriter<T>::commit() {
  flush();
  io::require_io(state_->file.commit());
}

template <class T>
void write_npy(const std::string& path, const Tensor<T>& tensor) {
  NpyWriter<T> writer(path, tensor.sizes());
  writer.append(tensor);
  writer.commit();
}

template Tensor<float> read_npy(const Context&, const std::string&);
template Tensor<double> read_npy(const Context&, const std::string&);
template Tensor<bool> read_npy(const Context&, const std::string&);
template class NpyWriter<float>;
template class NpyWriter<double>;
template class NpyWriter<bool>;
template void write_npy(const std::string&, const Tensor<float>&);
template void write_npy(const std::string&, const Tensor<double>&);
template void write_npy(const std::string&, const Tensor<bool>&);

}  // namespace ennead
