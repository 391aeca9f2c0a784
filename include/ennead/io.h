// SPDX-License-Identifier: Apache-2.0
// Tensors in files: NumPy's .npy and .safetensors, as the library ennead::io reads and writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ennead/dtype.h"
#include "ennead/export.h"
#include "ennead/tensor.h"

ENNEAD_API_BEGIN
namespace ennead {

/// Thrown by everything that touches a file. what() is one sentence that starts with the file's
/// name: expected, got.
class FileError : public Error {
 public:
  using Error::Error;
};

// -- .npy ---------------------------------------------------------------------------------------

/// What a file says of an array it holds.
struct StoredArray {
  DType dtype = DType::float32;
  Dims sizes;
  bool fortran_order = false;  ///< the first axis varies fastest
  bool big_endian = false;
  std::uint64_t data_offset = 0;  ///< bytes from the start of the file
};

/// Reads the header alone. Throws FileError unless the file is a .npy file (version 1 to 3) of
/// floating point numbers or booleans, and exactly as long as its header says. NumPy has no
/// bfloat16: a uint16 array is taken to hold bfloat16 bits.
StoredArray read_npy_info(const std::string& path);

/// Reads an array, T being float, double or bool. Wider types are exact; a float64 value is rounded
/// to the nearest float, and FileError is thrown if it is too large for one. Booleans and numbers
/// are not taken for one another. A file in Fortran order gives a tensor with such strides.
template <class T>
ENNEAD_API Tensor<T> read_npy(const Context& context, const std::string& path);

/// Writes `tensor`, whatever its strides, in C order. The file appears under its name when it is
/// complete, and not at all when something fails.
template <class T>
ENNEAD_API void write_npy(const std::string& path, const Tensor<T>& tensor);

/// Writes an array piece by piece along its first axis, for results larger than memory.
template <class T>
class NpyWriter {
 public:
  /// Throws FileError when nothing can be written at `path`.
  NpyWriter(const std::string& path, const Dims& sizes);
  ~NpyWriter();
  NpyWriter(NpyWriter&&) noexcept;
  NpyWriter& operator=(NpyWriter&&) noexcept;

  /// The next rows; every axis but the first as in `sizes`.
  void append(const Tensor<T>& rows);
  /// Everything that can still fail: after it the data is on the disk, under no name yet.
  void flush();
  /// Gives the file its name. Without it nothing is left behind.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// -- .safetensors -------------------------------------------------------------------------------

/// A tensor as a file stores it: row-major, least significant byte first.
struct RawTensor {
  DType dtype = DType::float32;
  Dims sizes;
  std::vector<std::byte> bytes;
};

struct NamedRawTensor {
  std::string name;
  RawTensor tensor;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// A .safetensors file: its header is read and checked when it is opened, tensors when they are
/// asked for, so files larger than memory are fine.
///
/// read() copies and notices a file that was cut short or changed meanwhile. borrow() points into
/// the mapped file: no copy, but the system kills a process that touches a mapped page whose file
/// was cut short, so use it on files that nobody rewrites in place.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    std::string dtype;  ///< as written in the file, e.g. "BF16"; may be one that read() refuses
    std::vector<std::int64_t> sizes;
    std::uint64_t begin = 0, end = 0;  ///< bytes from the start of the file
  };

  /// Throws FileError unless the file is well formed: header, names, types, sizes and offsets.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  const std::string& path() const;
  /// In the order of the data.
  std::span<const Entry> entries() const;
  /// nullptr when there is none of that name.
  const Entry* find(std::string_view name) const;
  const SafetensorsMetadata& metadata() const;

  /// Throws FileError: no such tensor, an unsupported type, more than kMaxRank axes, not enough
  /// memory, or the file is no longer what it was when it was opened.
  RawTensor read_raw(std::string_view name) const;
  /// As read_npy(): float, double or bool, by conversion.
  template <class T>
  Tensor<T> read(const Context& context, std::string_view name) const;
  /// The mapped bytes as a tensor; this object must outlive it. Writing to it changes this
  /// process's copy only. Throws FileError unless the file stores T itself, aligned.
  template <class T>
  Tensor<T> borrow(const Context& context, std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The bytes of `tensor`, for write_safetensors().
template <class T>
ENNEAD_API RawTensor to_raw(const Tensor<T>& tensor);

/// Writes the tensors one after the other. The file appears under its name when it is complete, and
/// not at all when something fails. Throws FileError for a name that is empty, twice there or not
/// UTF-8.
void write_safetensors(const std::string& path, std::span<const NamedRawTensor> tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace ennead
ENNEAD_API_END
