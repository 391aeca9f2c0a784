// SPDX-License-Identifier: Apache-2.0
// Fetching what comes next, while the multiply unit is busy.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_TILE_FETCH_WORK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_TILE_FETCH_WORK_INL_H_
#undef ENNEAD_KERNELS_AMX_TILE_FETCH_WORK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_TILE_FETCH_WORK_INL_H_
#endif
#include "kernels/amx/tile/tile_registers-inl.h"
#include "kernels/shared/fetch-inl.h"
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
    each_turn_ = ceil_div(row_bytes_ * rows_, std::max<std::int64_t>(1, turns));
    // More than the caches can have under way would hold up the tiles.
    if (each_turn_ > kMostBytes) rows_ = 0;
  }
  HWY_INLINE void turn() {
    if (rows_ == 0) return;
    // A line or two too many do no harm, and branches would.
    ENNEAD_UNROLL
    for (int i = 0; i < kLines; ++i) fetch_line_to_second_level(at_ + i * kLine);
    for (std::int64_t more = kLines * kLine; more < each_turn_; more += kLine) fetch_line_to_second_level(at_ + more);
    at_ += each_turn_;
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
  std::int64_t row_bytes_, row_stride_, rows_, each_turn_;
};

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
