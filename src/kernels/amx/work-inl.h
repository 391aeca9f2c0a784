// SPDX-License-Identifier: Apache-2.0
// What the vector units do while the multiply unit is busy: fetching and splitting what comes next.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_WORK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_WORK_INL_H_
#undef ENNEAD_KERNELS_AMX_WORK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_WORK_INL_H_
#endif
#include "kernels/amx/split-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Brings rows of memory into the second level cache a little at a time, while the multiply unit is busy.
class FetchWork {
 public:
  /// `rows` rows of `row_bytes`, all of them in about `turns` turns.
  FetchWork(const void* from, std::int64_t row_bytes, std::int64_t row_stride, std::int64_t rows, std::int64_t turns)
      : at_(static_cast<const char*>(from)), row_bytes_(row_bytes), row_stride_(row_stride), rows_(rows) {
    if (row_stride == row_bytes) {
      row_bytes_ *= rows_;
      rows_ = std::min<std::int64_t>(rows_, 1);
    }
    end_ = at_ + row_bytes_;
    step_ = ceil_div(row_bytes_ * rows_, std::max<std::int64_t>(1, turns));
    // More than the caches can have under way would hold up the tiles.
    if (step_ > kMostBytes) rows_ = 0;
  }
  HWY_INLINE void turn() {
    if (rows_ == 0) return;
    // A line or two too many do no harm, and branches would.
    ENNEAD_UNROLL
    for (int i = 0; i < kLines; ++i) __builtin_prefetch(at_ + i * kLine, 0, 2);
    for (std::int64_t more = kLines * kLine; more < step_; more += kLine) __builtin_prefetch(at_ + more, 0, 2);
    at_ += step_;
    if (HWY_UNLIKELY(at_ >= end_)) next_row();
  }

 private:
  void next_row() {
    --rows_;
    end_ += row_stride_;
    at_ = end_ - row_bytes_;
  }
  static constexpr std::int64_t kLine = 64;
  static constexpr int kLines = 4;
  static constexpr std::int64_t kMostBytes = 8 * kLine;
  const char *at_, *end_;
  std::int64_t row_bytes_, row_stride_, rows_, step_;
};

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
      : rows_(rows), maxima_(maxima), left_(rows.rows * depth_steps(rows.depth)) {
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
    if (HWY_LIKELY(ahead >= kStepDepth)) {
      const Tag<float> d;
      low = hn::LoadU(d, from_);
      high = hn::LoadU(d, from_ + kSide);
    } else {
      low = load_first(from_, ahead);
      high = load_first(from_ + kSide, ahead - kSide);
    }
    __builtin_prefetch(from_ + 2 * kStepDepth);
    __builtin_prefetch(from_ + 2 * kStepDepth + kSide);
    maxima_.add_to_line(row_, hn::Max(magnitudes(low), magnitudes(high)));
    store_pairs(split(low, high), to_);
    --left_;
    ++row_;
    from_ += rows_.row_stride;
    to_ += 64;
    if (row_ == end_) next_step();
  }
  HWY_INLINE void next_step() {
    k_ += kStepDepth;
    if (k_ >= rows_.depth) return start_half(end_);
    from_ += kStepDepth - (end_ - half_) * rows_.row_stride;
    to_ += kStepBytes - (end_ - half_) * 64;
    row_ = half_;
  }
  void clear(std::int64_t row) const {
    for (std::int64_t step = 0; step < depth_steps(rows_.depth); ++step) {
      for (int p = 0; p < kPlanes; ++p) {
        std::memset(rows_.panel + step * kStepBytes + p * kPlaneBytes + row_offset(row), 0, 64);
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
