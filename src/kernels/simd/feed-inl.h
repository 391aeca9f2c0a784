// SPDX-License-Identifier: Apache-2.0
// Memory that attention will need soon, fetched by its score tiles while they multiply.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_FEED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_FEED_INL_H_
#undef ENNEAD_KERNELS_SIMD_FEED_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_FEED_INL_H_
#endif
#include "kernels/simd/tile-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Rows of memory that will be needed soon: the line at one offset of many rows, then the next line of them.
template <class T>
struct FeedRows {
  const T* data;
  std::int64_t rows, row_stride, row_elements;
};

/// What the score tiles fetch while they multiply: groups of rows, the last one added first.
template <class T>
class Feed {
 public:
  /// Nothing happens when there is no room: it is only about speed.
  void add(const FeedRows<T>& rows) {
    if (count_ < kMost && rows.rows > 0) waiting_[count_++] = {rows, 0, 0};
  }

  int size() const { return count_; }
  /// Forgets what was added after there were `size` groups.
  void shrink(int size) { count_ = std::min(count_, size); }

  /// For a tile that takes `turns`; `otherwise` when there is nothing left to fetch.
  Upcoming<T> take(std::int64_t turns, const T* otherwise) {
    if (count_ == 0 || turns == 0) return {otherwise, 0};
    Waiting& next = waiting_[count_ - 1];
    const Upcoming<T> taken{next.rows.data + next.row * next.rows.row_stride + next.offset, next.rows.row_stride};
    next.offset += kLine;
    if (next.offset >= next.rows.row_elements) {
      next.offset = 0;
      next.row += turns;
    }
    if (next.row >= next.rows.rows) --count_;
    return taken;
  }

 private:
  static constexpr int kMost = 8;
  static constexpr std::int64_t kLine = 64 / sizeof(T);
  struct Waiting {
    FeedRows<T> rows;
    std::int64_t row, offset;
  };
  Waiting waiting_[kMost];
  int count_ = 0;
};

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
