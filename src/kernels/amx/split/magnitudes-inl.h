// SPDX-License-Identifier: Apache-2.0
// The magnitudes of rows and columns, which say whether the multiply unit gets them right.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_SPLIT_MAGNITUDES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_SPLIT_MAGNITUDES_INL_H_
#undef ENNEAD_KERNELS_AMX_SPLIT_MAGNITUDES_INL_H_
#else
#define ENNEAD_KERNELS_AMX_SPLIT_MAGNITUDES_INL_H_
#endif
#include "kernels/amx/split/planes-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Magnitudes, whose bits order as they do, with infinity and NaN above all.
HWY_INLINE Bits magnitudes(Floats x) { return hn::BitCast(BitsTag(), hn::Abs(x)); }

inline std::uint32_t largest(Bits magnitudes) { return hn::GetLane(hn::MaxOfLanes(BitsTag(), magnitudes)); }

constexpr std::uint32_t kLeastTame = (127U - 50U) << 23, kMostTame = (127U + 50U) << 23;

/// Whether the multiply unit gets a row of this largest magnitude right. It takes numbers below 2^-126 for 0, and the
/// lowest part of a small number may be one; and the parts of a product that is infinite may cancel to NaN.
/// Between 2^-50 and 2^50 neither can happen to two operands; a row of zeros is right, too.
inline bool is_tame(std::uint32_t magnitude) {
  return magnitude == 0 || (magnitude >= kLeastTame && magnitude <= kMostTame);
}

/// The same of a row whose largest magnitude is in one of these lanes.
HWY_INLINE bool is_tame(Bits lanes) {
  const BitsTag bits;
  const bool small = hn::AllFalse(bits, hn::Gt(lanes, hn::Set(bits, kMostTame)));
  if (small && !hn::AllTrue(bits, hn::Lt(lanes, hn::Set(bits, kLeastTame)))) return true;
  return is_tame(largest(lanes));
}

/// More than any magnitude: the smallest one that is not 0 where all are.
constexpr std::uint32_t kNoMagnitude = 0xffffffffU;

/// The smallest of some magnitudes that is not 0, in one of the lanes, less 1: that of 0 wraps around and is the
/// largest.
class LeastMagnitude {
 public:
  LeastMagnitude() : least_(hn::Set(BitsTag(), kNoMagnitude)) {}
  HWY_INLINE void add(Bits some) { least_ = hn::Min(least_, hn::Sub(some, hn::Set(BitsTag(), 1U))); }
  std::uint32_t get() const {
    const std::uint32_t before = hn::GetLane(hn::MinOfLanes(BitsTag(), least_));
    return before == kNoMagnitude ? kNoMagnitude : before + 1;
  }

 private:
  Bits least_;
};

/// The largest magnitude of each line of a panel so far, and the smallest of all that is not 0.
class LineMaxima {
 public:
  LineMaxima() {
    std::memset(of_line_, 0, sizeof(of_line_));
    std::memset(of_lines_, 0, sizeof(of_lines_));
  }
  /// Some elements of a line.
  HWY_INLINE void add_to_line(std::int64_t line, Bits some) {
    const BitsTag bits;
    hn::Store(hn::Max(hn::Load(bits, of_line_[line]), some), bits, of_line_[line]);
  }
  /// An element of each of 16 lines.
  HWY_INLINE void add_to_half(int half, Bits some) {
    const BitsTag bits;
    hn::Store(hn::Max(hn::Load(bits, of_lines_ + half * kSide), some), bits, of_lines_ + half * kSide);
  }
  HWY_INLINE bool is_tame_line(std::int64_t line) const {
    const BitsTag bits;
    return is_tame(hn::Max(hn::Load(bits, of_line_[line]), hn::Set(bits, of_lines_[line])));
  }
  std::uint32_t of(std::int64_t line) const {
    return std::max(of_lines_[line], largest(hn::Load(BitsTag(), of_line_[line])));
  }
  /// Only of what find_maxima() has seen.
  std::uint32_t least() const { return least_.get(); }
  LeastMagnitude& least_magnitude() { return least_; }

 private:
  LeastMagnitude least_;
  alignas(64) std::uint32_t of_line_[kPanel][kSide];
  alignas(64) std::uint32_t of_lines_[kPanel];
};

/// For each of `count` <= 32 lines from line0, over their whole depth.
inline void find_maxima(const View<const float, 2>& lines, std::int64_t line0, std::int64_t count, LineMaxima& maxima) {
  const std::int64_t depth = lines.size(1);
  const float* const from = lines.data + line0 * lines.stride(0);
  LeastMagnitude least;
  const auto fold = [&](Floats x, Bits& most) HWY_ATTR {
    most = hn::Max(most, magnitudes(x));
    least.add(magnitudes(x));
  };
  if (lines.stride(0) == 1 && lines.stride(1) != 1) {
    for (int half = 0; half < (count > kSide ? 2 : 1); ++half) {
      Bits most = hn::Zero(BitsTag());
      for (std::int64_t k = 0; k < depth; ++k) {
        const float* const row = from + k * lines.stride(1) + half * kSide;
        fold(load_first(row, count - half * kSide), most);
      }
      maxima.add_to_half(half, most);
    }
    maxima.least_magnitude() = least;
    return;
  }
  for (std::int64_t line = 0; line < count; ++line) {
    const float* const row = from + line * lines.stride(0);
    Bits most = hn::Zero(BitsTag());
    if (lines.stride(1) == 1) {
      for (std::int64_t k = 0; k < depth; k += kSide) fold(load_first(row + k, depth - k), most);
    } else {
      for (std::int64_t k = 0; k < depth; ++k) fold(hn::Set(Tag<float>(), row[k * lines.stride(1)]), most);
    }
    maxima.add_to_line(line, most);
  }
  maxima.least_magnitude() = least;
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
