// SPDX-License-Identifier: Apache-2.0
// Splitting what comes next, while the multiply unit is busy.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_SPLIT_SPLIT_WORK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_SPLIT_SPLIT_WORK_INL_H_
#undef ENNEAD_KERNELS_AMX_SPLIT_SPLIT_WORK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_SPLIT_SPLIT_WORK_INL_H_
#endif
#include "kernels/amx/split/panels-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Rows of a left operand, a chunk of their depth, to become a panel. Elements side by side.
struct RowsToSplit {
  const float* data;
  std::int64_t row_stride, rows, depth;
  char* panel;
};

/// Splits rows a little at a time, while the multiply unit is busy with others: 32 elements of each of 16 rows after
/// one another, since these lie together in a tile.
class SplitWork {
 public:
  /// All of it is done in `turns` turns. The largest magnitudes go to `maxima`.
  SplitWork(const RowsToSplit& rows, std::int64_t turns, LineMaxima& maxima)
      : rows_(rows), maxima_(maxima), left_(rows.rows * depth_slices(rows.depth)) {
    each_turn_ = static_cast<int>(ceil_div(left_, std::max<std::int64_t>(1, turns)));
    start_half(0);
    const std::int64_t end = rows.rows <= kSide ? kSide : kPanel;
    for (std::int64_t row = rows.rows; row < end; ++row) clear(row);
  }

  HWY_INLINE void turn() {
    for (int i = 0; i < each_turn_ && left_ > 0; ++i) split_next();
  }
  /// Does what is left.
  void finish() {
    while (left_ > 0) split_next();
  }

 private:
  void start_half(std::int64_t row) {
    row_ = row;
    end_ = std::min<std::int64_t>(rows_.rows, row + kSide);
    half_ = row;
    k_ = 0;
    from_ = rows_.data + row * rows_.row_stride;
    to_ = rows_.panel + row_offset(row);
  }
  HWY_INLINE void split_next() {
    const std::int64_t ahead = rows_.depth - k_;
    Floats low, high;
    if (HWY_LIKELY(ahead >= kSliceDepth)) {
      const Tag<float> d;
      low = hn::LoadU(d, from_);
      high = hn::LoadU(d, from_ + kSide);
    } else {
      low = load_first(from_, ahead);
      high = load_first(from_ + kSide, ahead - kSide);
    }
    fetch_line(from_ + 2 * kSliceDepth);
    fetch_line(from_ + 2 * kSliceDepth + kSide);
    maxima_.add_to_line(row_, hn::Max(magnitudes(low), magnitudes(high)));
    store_pairs(split(low, high), to_);
    --left_;
    ++row_;
    from_ += rows_.row_stride;
    to_ += 64;
    if (row_ == end_) next_slice();
  }
  HWY_INLINE void next_slice() {
    k_ += kSliceDepth;
    if (k_ >= rows_.depth) return start_half(end_);
    from_ += kSliceDepth - (end_ - half_) * rows_.row_stride;
    to_ += kSliceBytes - (end_ - half_) * 64;
    row_ = half_;
  }
  void clear(std::int64_t row) const {
    for (std::int64_t slice = 0; slice < depth_slices(rows_.depth); ++slice) {
      for (int p = 0; p < kPlanes; ++p) {
        std::memset(rows_.panel + slice * kSliceBytes + p * kPlaneBytes + row_offset(row), 0, 64);
      }
    }
  }

  RowsToSplit rows_;
  LineMaxima& maxima_;
  std::int64_t left_;
  int each_turn_;
  const float* from_;
  char* to_;
  std::int64_t half_, k_, row_, end_;
};

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
