// SPDX-License-Identifier: Apache-2.0
// Memory that attention will need soon, fetched by its tiles of scores while they multiply.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_FETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_FETCH_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_FETCH_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_FETCH_INL_H_
#endif
#include "kernels/simd/gemm/register_tile-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// Rows of memory that will be needed soon: the line at one offset of many rows, then the next line of them.
template <class T>
struct FetchRows {
  const T* data;
  std::int64_t rows, row_stride, row_elements;
};

/// What the tiles of scores fetch while they multiply: groups of rows, the last one added first.
template <class T>
class FetchQueue {
 public:
  /// Nothing happens when there is no room: it is only about speed.
  void add(const FetchRows<T>& rows) {
    if (count_ < kMost && rows.rows > 0) waiting_[count_++] = {rows, 0, 0};
  }

  int size() const { return count_; }
  /// Forgets what was added after there were `size` groups.
  void shrink(int size) { count_ = std::min(count_, size); }

  /// For a tile that takes so many iterations of two k; `otherwise` when there is nothing left to fetch.
  Fetch<T> take(std::int64_t iterations, const T* otherwise) {
    if (count_ == 0 || iterations == 0) return {otherwise, 0};
    Waiting& next = waiting_[count_ - 1];
    const Fetch<T> taken{next.rows.data + next.row * next.rows.row_stride + next.offset, next.rows.row_stride};
    next.offset += kLine;
    if (next.offset >= next.rows.row_elements) {
      next.offset = 0;
      next.row += iterations;
    }
    if (next.row >= next.rows.rows) --count_;
    return taken;
  }

 private:
  static constexpr int kMost = 8;
  static constexpr std::int64_t kLine = 64 / sizeof(T);
  struct Waiting {
    FetchRows<T> rows;
    std::int64_t row, offset;
  };
  Waiting waiting_[kMost];
  int count_ = 0;
};

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
