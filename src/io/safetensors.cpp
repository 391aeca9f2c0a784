// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cstdint>
#include <unordered_map>

#include "ennead/io.h"
#include "io/elements.h"
#include "io/file.h"
#include "io/safetensors_header.h"
#include "io/text.h"
#include "io/transfer.h"

namespace ennead {

struct SafetensorsFile::State {
  io::InputFile file;
  io::SafetensorsHeader header;
  std::unordered_map<std::string_view, const Entry*> by_name;

  /// Throws FileError when there is no such tensor or it is of a kind that we do not read.
  StoredArray stored(std::string_view name) const;
};

namespace {

std::uint64_t read_header_length(const io::InputFile& file) {
  if (file.size() == 0) io::require_file(file.path(), "expected a .safetensors file, got an empty one");
  if (file.size() < io::kSafetensorsPreamble) {
    io::require_file(file.path(),
                     sentence("expected a .safetensors file, which starts with 8 bytes of header length, got ",
                              file.size(), " bytes in all"));
  }
  std::array<std::byte, io::kSafetensorsPreamble> bytes;
  io::require_io(file.read(0, bytes));
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  if (length > io::kMaxSafetensorsHeader) {
    io::require_file(file.path(), sentence("expected a .safetensors file, whose header has at most ",
                                           io::kMaxSafetensorsHeader, " bytes, got ", length, " in the first 8 bytes"));
  }
  const std::uint64_t left = file.size() - io::kSafetensorsPreamble;
  if (length > left) {
    io::require_file(file.path(), sentence("expected a header of ", length, " bytes, got a file with ", left,
                                           " after the first 8 bytes"));
  }
  return length;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : state_(std::make_unique<State>()) {
  io::InputFile& file = state_->file;
  io::require_io(file.open(path));
  std::string json(static_cast<std::size_t>(read_header_length(file)), ' ');
  io::require_io(file.read(io::kSafetensorsPreamble, std::as_writable_bytes(std::span(json))));
  const std::uint64_t data_offset = io::kSafetensorsPreamble + json.size();
  io::require_file(path, io::parse_safetensors_header(json, data_offset, file.size() - data_offset, state_->header));
  for (const Entry& entry : state_->header.entries) state_->by_name[entry.name] = &entry;
}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;

const std::string& SafetensorsFile::path() const { return state_->file.path(); }
std::span<const SafetensorsFile::Entry> SafetensorsFile::entries() const { return state_->header.entries; }
const SafetensorsMetadata& SafetensorsFile::metadata() const { return state_->header.metadata; }

const SafetensorsFile::Entry* SafetensorsFile::find(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : found->second;
}

StoredArray SafetensorsFile::State::stored(std::string_view name) const {
  const auto found = by_name.find(name);
  if (found == by_name.end()) {
    io::require_file(file.path(), sentence("expected a tensor of the name ", io::in_quotes(name), ", got none"));
  }
  const Entry& entry = *found->second;
  const std::optional<DType> dtype = io::parse_safetensors_dtype(entry.dtype);
  if (!dtype) {
    io::require_file(file.path(), sentence("expected F16, BF16, F32, F64 or BOOL as the type of ", io::in_quotes(name),
                                           ", got ", io::in_quotes(entry.dtype)));
  }
  if (entry.sizes.size() > kMaxRank) {
    io::require_file(file.path(), sentence("expected at most ", kMaxRank, " axes for ", io::in_quotes(name), ", got ",
                                           entry.sizes.size()));
  }
  StoredArray array;
  array.dtype = *dtype;
  array.sizes = Dims(entry.sizes);
  array.data_offset = entry.begin;
  return array;
}

RawTensor SafetensorsFile::read_raw(std::string_view name) const {
  const StoredArray array = state_->stored(name);
  const Entry& entry = *find(name);
  const auto size = static_cast<std::size_t>(entry.end - entry.begin);
  RawTensor tensor{array.dtype, array.sizes, {}};
  io::require_file(path(), Arena({}).check(size));
  tensor.bytes.resize(size);
  io::require_io(state_->file.read(entry.begin, tensor.bytes));
  io::require_io(state_->file.check_unchanged());
  return tensor;
}

template <class T>
Tensor<T> SafetensorsFile::read(const Context& context, std::string_view name) const {
  return io::read_tensor<T>(context, state_->file, state_->stored(name));
}

template <class T>
Tensor<T> SafetensorsFile::borrow(const Context& context, std::string_view name) const {
  const StoredArray array = state_->stored(name);
  if (array.dtype != io::DTypeOf<T>::value || std::endian::native != std::endian::little) {
    io::require_file(path(),
                     sentence("expected ", io::in_quotes(name), " stored as this machine's ",
                              ennead::name(io::DTypeOf<T>::value), ", to borrow it, got ", ennead::name(array.dtype)));
  }
  if (array.data_offset % alignof(T) != 0) {
    io::require_file(path(), sentence("expected ", io::in_quotes(name), " at a multiple of ", alignof(T),
                                      " bytes, to borrow it, got byte ", array.data_offset));
  }
  io::require_io(state_->file.check_unchanged());
  std::span<std::byte> bytes;
  io::require_io(state_->file.map(bytes));
  T* data = reinterpret_cast<T*>(bytes.data() + array.data_offset);
  return Tensor<T>::borrow(context, data, array.sizes, contiguous_strides(array.sizes));
}

template <class T>
RawTensor to_raw(const Tensor<T>& tensor) {
  RawTensor raw{io::DTypeOf<T>::value, tensor.sizes(), {}};
  raw.bytes.reserve(static_cast<std::size_t>(tensor.num_elements()) * sizeof(T));
  io::for_each_piece(
      tensor, [&](std::span<const std::byte> piece) { raw.bytes.insert(raw.bytes.end(), piece.begin(), piece.end()); });
  return raw;
}

void write_safetensors(const std::string& path, std::span<const NamedRawTensor> tensors,
                       const SafetensorsMetadata& metadata) {
  std::string header;
  io::require_file(path, io::format_safetensors_header(tensors, metadata, header));
  io::OutputFile file;
  io::require_io(file.open(path));
  io::require_io(file.write(std::as_bytes(std::span(header))));
  for (const NamedRawTensor& each : tensors) io::require_io(file.write(each.tensor.bytes));
  io::require_io(file.commit());
}

template Tensor<float> SafetensorsFile::read(const Context&, std::string_view) const;
template Tensor<double> SafetensorsFile::read(const Context&, std::string_view) const;
template Tensor<bool> SafetensorsFile::read(const Context&, std::string_view) const;
template Tensor<float> SafetensorsFile::borrow(const Context&, std::string_view) const;
template Tensor<double> SafetensorsFile::borrow(const Context&, std::string_view) const;
template RawTensor to_raw(const Tensor<float>&);
template RawTensor to_raw(const Tensor<double>&);
template RawTensor to_raw(const Tensor<bool>&);

}  // namespace ennead
