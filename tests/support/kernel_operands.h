// SPDX-License-Identifier: Apache-2.0
// Operands for tests of the kernels: any layout, with memory that shows what should not be touched.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "ennead/view.h"
#include "support/guarded.h"
#include "support/random.h"

namespace ennead::test {

/// How far apart two sums of the same `terms` products may be, when the magnitudes sum to `scale`.
template <class T>
double rounding_bound(double scale, std::int64_t terms) {
  const double eps = static_cast<double>(std::numeric_limits<T>::epsilon());
  return scale * eps * (4 + static_cast<double>(terms)) + static_cast<double>(std::numeric_limits<T>::min());
}

/// What memory holds before a call: each byte. Used without having been written, NaN shows in a result where it is
/// multiplied; an ordinary number shows where NaN would be noticed and mended (AMX computes such rows in another way).
enum class Fill : unsigned char { nan = 0xff, ordinary_number = 0x3f };

/// 64-byte aligned memory that holds a pattern, with a band of it behind the end.
template <class T>
class AlignedBuffer {
 public:
  explicit AlignedBuffer(std::size_t elements, Fill fill = Fill::nan)
      : bytes_(elements * sizeof(T)),
        fill_(static_cast<unsigned char>(fill)),
        memory_(static_cast<unsigned char*>(std::aligned_alloc(64, (bytes_ + kBand + 63) / 64 * 64))) {
    std::fill(memory_.get(), memory_.get() + bytes_ + kBand, fill_);
  }
  T* data() { return reinterpret_cast<T*>(memory_.get()); }
  bool intact() const {
    for (std::size_t i = 0; i < kBand; ++i) {
      if (memory_[bytes_ + i] != fill_) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };
  static constexpr std::size_t kBand = 256;
  std::size_t bytes_;
  unsigned char fill_;
  std::unique_ptr<unsigned char[], Free> memory_;
};

enum class Layout { any, any_without_overlap, contiguous };

/// A tensor of N(0, 1) values whose axes lie in memory in any order, with gaps and reversed axes;
/// Layout::any may also repeat an axis (stride 0). All memory that no index reaches is NaN.
template <class T, int Rank>
class Operand {
 public:
  Operand(std::array<std::int64_t, Rank> sizes, Random& random, Layout layout = Layout::any_without_overlap) {
    view_.sizes = sizes;
    std::array<int, Rank> order;
    std::iota(order.begin(), order.end(), 0);
    if (layout != Layout::contiguous && random.coin()) {
      for (std::size_t i = Rank; i > 1; --i) {
        std::swap(order[i - 1], order[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
      }
    }
    std::int64_t extent = 1, first = 0;
    for (std::size_t i = Rank; i-- > 0;) {
      const auto axis = static_cast<std::size_t>(order[i]);
      const std::int64_t size = sizes[axis];
      if (layout == Layout::any && random.coin(0.2)) continue;  // stride 0
      view_.strides[axis] = extent;
      if (layout != Layout::contiguous && random.coin(0.3)) {
        first += extent * std::max<std::int64_t>(0, size - 1);
        view_.strides[axis] = -extent;
      }
      extent *= std::max<std::int64_t>(1, size);
      if (layout != Layout::contiguous && random.coin(0.3)) extent += random.integer(1, 5);
    }
    memory_ = std::make_unique<Guarded<T>>(static_cast<std::size_t>(extent));
    view_.data = memory_->data() + first;
    for_each([&](T& element) { element = static_cast<T>(random.normal()); });
    mark_gaps();
  }

  View<const T, Rank> view() const { return view_; }
  View<T, Rank> mutable_view() { return view_; }
  /// Fills the tensor with NaN.
  void poison() {
    for_each([](T& element) { element = std::numeric_limits<T>::quiet_NaN(); });
  }
  /// The elements in row-major order.
  std::vector<T> values() {
    std::vector<T> all;
    for_each([&](T& element) { all.push_back(element); });
    return all;
  }
  /// Whether nothing outside the tensor was written.
  bool intact() const {
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      const T value = memory_->span()[i];
      if (gaps_[i] && value == value) return false;
    }
    return memory_->intact();
  }

 private:
  template <class Body>
  void for_each(Body&& body) {
    const std::int64_t total = view_.num_elements();
    for (std::int64_t i = 0; i < total; ++i) {
      std::int64_t rest = i, offset = 0;
      for (std::size_t axis = Rank; axis-- > 0;) {
        offset += rest % view_.sizes[axis] * view_.strides[axis];
        rest /= view_.sizes[axis];
      }
      body(view_.data[offset]);
    }
  }
  void mark_gaps() {
    gaps_.assign(memory_->span().size(), true);
    for_each([&](T& element) { gaps_[static_cast<std::size_t>(&element - memory_->data())] = false; });
  }

  View<T, Rank> view_;
  std::unique_ptr<Guarded<T>> memory_;
  std::vector<bool> gaps_;
};

}  // namespace ennead::test
