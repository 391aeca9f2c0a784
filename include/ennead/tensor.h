// SPDX-License-Identifier: Apache-2.0
// Strided storage of any rank, as the eager operations use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "ennead/context.h"
#include "ennead/error.h"
#include "ennead/export.h"
#include "ennead/packed_byte.h"
#include "ennead/view.h"

ENNEAD_API_BEGIN
namespace ennead {

inline constexpr int kMaxRank = 8;

/// Up to kMaxRank integers: sizes, strides or axes.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values);
  explicit Dims(std::span<const std::int64_t> values);

  int rank() const { return rank_; }
  /// @param axis in [0, rank())
  std::int64_t& operator[](int axis) { return values_[static_cast<std::size_t>(axis)]; }
  std::int64_t operator[](int axis) const { return values_[static_cast<std::size_t>(axis)]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + rank_; }
  void push_back(std::int64_t value);
  std::int64_t product() const;
  bool operator==(const Dims& other) const;

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

/// "[8, 1024, 768]"
std::string to_string(const Dims& dims);
/// Strides of a row-major tensor of these sizes.
Dims contiguous_strides(const Dims& sizes);

/// The bytes behind one or more Tensors.
struct Storage {
  Context context;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool owned = true;      ///< false: borrowed from the caller
  int saved_by_tape = 0;  ///< how many recorded operations need the values as they are

  explicit Storage(Context c) : context(std::move(c)) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
};

struct TapeVariable;

/// A handle: copies share storage. Element types: float, double, bool (masks), PackedByte (packed weights).
template <class T>
class Tensor {
 public:
  /// No tensor: empty() is true.
  Tensor() = default;

  /// Uninitialised (NaN in a poisoning arena). Throws Error for negative sizes, for a product
  /// that overflows, and when the memory is not there.
  static Tensor uninitialized(const Context& context, const Dims& sizes);
  static Tensor full(const Context& context, const Dims& sizes, T value);
  static Tensor from(const Context& context, const Dims& sizes, std::span<const T> values);
  /// Borrows the caller's memory, which must outlive every handle. Throws Error for sizes that are no sizes,
  /// strides that do not go with them, and a null pointer where there are elements.
  static Tensor borrow(const Context& context, T* data, const Dims& sizes, const Dims& strides);
  /// Another view of `storage`.
  Tensor(std::shared_ptr<Storage> storage, T* data, const Dims& sizes, const Dims& strides);

  bool empty() const { return storage_ == nullptr; }
  const Context& context() const { return storage_->context; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  T* data() const { return data_; }
  const Dims& sizes() const { return sizes_; }
  const Dims& strides() const { return strides_; }
  int rank() const { return sizes_.rank(); }
  /// Size of an axis; negative axes count from the end. Throws Error when there is no such axis.
  std::int64_t size(int axis) const { return sizes_[from_front(axis)]; }
  std::int64_t stride(int axis) const { return strides_[from_front(axis)]; }
  std::int64_t num_elements() const { return sizes_.product(); }
  bool is_contiguous() const;

  /// The same memory as a View. Throws Error when the tensor has not Rank axes.
  template <int Rank>
  View<T, Rank> view() const {
    check_rank(Rank);
    View<T, Rank> view;
    view.data = data_;
    for (int axis = 0; axis < Rank; ++axis) {
      view.sizes[static_cast<std::size_t>(axis)] = sizes_[axis];
      view.strides[static_cast<std::size_t>(axis)] = strides_[axis];
    }
    return view;
  }

  /// One element, by index per axis.
  T& at(std::initializer_list<std::int64_t> index) const;

  /// The tape's name for this value; null when no gradient is wanted.
  std::shared_ptr<TapeVariable> variable;

 private:
  int from_front(int axis) const;
  void check_rank(int expected) const;

  std::shared_ptr<Storage> storage_;
  T* data_ = nullptr;
  Dims sizes_, strides_;
};

/// Nothing when a tensor of these sizes can be addressed (no negative size, no overflow).
Refusal check_sizes(const Dims& sizes, std::size_t element_bytes);

}  // namespace ennead
ENNEAD_API_END
