// SPDX-License-Identifier: Apache-2.0
// float32 operands as three planes of bfloat16 in the layout of tiles.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_SPLIT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_SPLIT_INL_H_
#undef ENNEAD_KERNELS_AMX_SPLIT_INL_H_
#else
#define ENNEAD_KERNELS_AMX_SPLIT_INL_H_
#endif
#include "kernels/amx/tile-inl.h"
#include "kernels/simd/transpose-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

using BitsTag = hn::RebindToUnsigned<Tag<float>>;
using Bits = hn::Vec<BitsTag>;
using Floats = Vec<float>;

/// Pairs of elements as the multiply unit takes them, one plane of bfloat16 after the other.
struct Pairs {
  Bits plane[kPlanes];
};

constexpr std::uint32_t kHighHalf = 0xffff0000U;

/// low + 65536 high of the upper halves of two vectors: what lies below them must be zero in `high`.
HWY_INLINE Bits pair_up(Bits low, Bits high) { return hn::Or(hn::ShiftRight<16>(low), high); }

/// x = a + b + c, exactly where a is finite and c is not below the smallest normal number: a is x to the nearest
/// bfloat16, b the rest to the nearest, c what is left, of at most 7 bits.
HWY_INLINE Pairs split(Floats low, Floats high) {
  const Tag<float> d;
  const BitsTag bits;
  const Bits half = hn::Set(bits, 0x8000U), mask = hn::Set(bits, kHighHalf);
  Pairs pairs;
  for (int p = 0; p < 2; ++p) {
    const Bits low_part = hn::And(hn::Add(hn::BitCast(bits, low), half), mask);
    const Bits high_part = hn::And(hn::Add(hn::BitCast(bits, high), half), mask);
    pairs.plane[p] = pair_up(low_part, high_part);
    low = hn::Sub(low, hn::BitCast(d, low_part));
    high = hn::Sub(high, hn::BitCast(d, high_part));
  }
  // What is left of a tiny number may have bits below, which must not get into its neighbour.
  pairs.plane[2] = pair_up(hn::BitCast(bits, low), hn::And(hn::BitCast(bits, high), mask));
  return pairs;
}

/// The same by cutting off in place of rounding: two instructions less for each vector. What the six products leave out
/// is larger then, at most 2^-23 of a product when the other operand is rounded. For finite numbers from 2^-110
/// upwards.
HWY_INLINE Pairs split_down(Floats low, Floats high) {
  const Tag<float> d;
  const BitsTag bits;
  const Bits mask = hn::Set(bits, kHighHalf);
  Pairs pairs;
  for (int p = 0; p < 2; ++p) {
    const Bits high_part = hn::And(hn::BitCast(bits, high), mask), low_part = hn::And(hn::BitCast(bits, low), mask);
    pairs.plane[p] = pair_up(low_part, high_part);
    low = hn::Sub(low, hn::BitCast(d, low_part));
    high = hn::Sub(high, hn::BitCast(d, high_part));
  }
  pairs.plane[2] = pair_up(hn::BitCast(bits, low), hn::And(hn::BitCast(bits, high), mask));
  return pairs;
}

/// Elements as they are, in the place of pairs: for those that must not be split. Of no element is the third part NaN.
constexpr std::uint32_t kNotSplit = 0xffffffffU;
HWY_INLINE Pairs not_split(Floats low, Floats high) {
  const BitsTag bits;
  return {{hn::BitCast(bits, low), hn::BitCast(bits, high), hn::Set(bits, kNotSplit)}};
}

/// Low and high elements of pairs, put together again.
HWY_INLINE void join(const Pairs& pairs, Floats& low, Floats& high) {
  const Tag<float> d;
  const BitsTag bits;
  const Bits mask = hn::Set(bits, kHighHalf);
  const auto low_of = [&](Bits plane) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(plane)); };
  const auto high_of = [&](Bits plane) HWY_ATTR { return hn::BitCast(d, hn::And(plane, mask)); };
  low = hn::Add(hn::Add(low_of(pairs.plane[2]), low_of(pairs.plane[1])), low_of(pairs.plane[0]));
  high = hn::Add(hn::Add(high_of(pairs.plane[2]), high_of(pairs.plane[1])), high_of(pairs.plane[0]));
  const auto whole = hn::RebindMask(d, hn::Eq(pairs.plane[2], hn::Set(bits, kNotSplit)));
  low = hn::IfThenElse(whole, hn::BitCast(d, pairs.plane[0]), low);
  high = hn::IfThenElse(whole, hn::BitCast(d, pairs.plane[1]), high);
}

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

HWY_INLINE void store_pairs(const Pairs& pairs, char* row) {
  const BitsTag bits;
  for (int p = 0; p < kPlanes; ++p) {
    hn::Store(pairs.plane[p], bits, reinterpret_cast<std::uint32_t*>(row + p * kPlaneBytes));
  }
}

/// Stores those lanes of a row whose byte in `keep` is 0.
HWY_INLINE void store_pairs_but(const char* keep, const Pairs& pairs, char* row) {
  const BitsTag bits;
  alignas(64) std::uint32_t kept[kSide];
  for (int i = 0; i < kSide; ++i) kept[i] = static_cast<std::uint32_t>(keep[i]);
  const auto stored = hn::Eq(hn::Load(bits, kept), hn::Zero(bits));
  for (int p = 0; p < kPlanes; ++p) {
    hn::BlendedStore(pairs.plane[p], stored, bits, reinterpret_cast<std::uint32_t*>(row + p * kPlaneBytes));
  }
}

HWY_INLINE Pairs load_pairs(const char* row) {
  Pairs pairs;
  for (int p = 0; p < kPlanes; ++p) {
    pairs.plane[p] = hn::Load(BitsTag(), reinterpret_cast<const std::uint32_t*>(row + p * kPlaneBytes));
  }
  return pairs;
}

/// Where row `row` of a panel lies in its first step.
constexpr std::int64_t row_offset(std::int64_t row) { return row / kSide * kTileBytes + row % kSide * 64; }

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

/// How an operand lies: rows of the left one hold what is summed over side by side, pairs of the right one are rows.
enum class Side { left, right };

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

/// The elements of 16 lines in a step of depth, one vector for each of 16 pairs: of a line's elements where those lie
/// side by side, else of 16 lines. Filled up with zeros.
struct HalfStep {
  Floats low[kSide], high[kSide];

  /// Rows `stride` apart, of which `rows` are there: 16 pairs of each.
  HWY_NOINLINE void load_along(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t depth) {
    const Tag<float> d;
    if (HWY_LIKELY(rows >= kSide && depth >= kStepDepth)) {
      ENNEAD_NO_UNROLL
      for (int i = 0; i < kSide; ++i) {
        low[i] = hn::LoadU(d, from + i * stride);
        high[i] = hn::LoadU(d, from + i * stride + kSide);
      }
      return;
    }
    ENNEAD_NO_UNROLL
    for (int i = 0; i < kSide; ++i) {
      low[i] = load_first(from + i * stride, i < rows ? depth : 0);
      high[i] = load_first(from + i * stride + kSide, i < rows ? depth - kSide : 0);
    }
  }
  /// Depths `stride` apart, of which `depth` are there: 16 lines of each.
  HWY_NOINLINE void load_across(const float* from, std::int64_t stride, std::int64_t lines, std::int64_t depth) {
    const Tag<float> d;
    if (HWY_LIKELY(lines >= kSide && depth >= kStepDepth)) {
      ENNEAD_NO_UNROLL
      for (int j = 0; j < kSide; ++j) {
        low[j] = hn::LoadU(d, from + j * stride);
        high[j] = hn::LoadU(d, from + (j + kSide) * stride);
      }
      return;
    }
    ENNEAD_NO_UNROLL
    for (int j = 0; j < kSide; ++j) {
      low[j] = load_first(from + j * stride, j < depth ? lines : 0);
      high[j] = load_first(from + (j + kSide) * stride, j + kSide < depth ? lines : 0);
    }
  }
  HWY_NOINLINE void turn() {
    transpose_square<float>(low);
    transpose_square<float>(high);
  }
};

/// Elements [k0, k0 + 32) of `count` lines (rows of a left operand, columns of a right one) from line0 as one step of a
/// panel, times factor, filled up with zeros. lines: [lines, depth], any strides. The largest magnitudes of the
/// products go to `maxima`. keep: of a right operand that is split already, lines whose byte is 0 are put there whole.
template <Side kSideOf>
void split_step(const View<const float, 2>& lines, std::int64_t line0, std::int64_t count, std::int64_t k0,
                float factor, char* to, LineMaxima* maxima = nullptr, const char* keep = nullptr) {
  const Tag<float> d;
  const BitsTag bits;
  constexpr bool kRight = kSideOf == Side::right;
  const std::int64_t depth = std::min(kStepDepth, lines.size(1) - k0);
  const bool across = lines.stride(0) == 1 && lines.stride(1) != 1;
  for (int half = 0; half < (count > kSide ? 2 : 1); ++half, to += kTileBytes) {
    const std::int64_t line = line0 + half * kSide, left = std::min<std::int64_t>(kSide, count - half * kSide);
    const float* const from = lines.data + line * lines.stride(0) + k0 * lines.stride(1);
    HalfStep step;
    if (across) {
      step.load_across(from, lines.stride(1), left, depth);
    } else if (lines.stride(1) == 1 || depth == 1) {
      step.load_along(from, lines.stride(0), left, depth);
    } else {
      alignas(64) float gathered[kSide * kStepDepth];
      for (std::int64_t i = 0; i < left; ++i) {
        for (std::int64_t k = 0; k < depth; ++k) {
          gathered[i * kStepDepth + k] = from[i * lines.stride(0) + k * lines.stride(1)];
        }
      }
      step.load_along(gathered, kStepDepth, left, depth);
    }
    // Turned before they are split: a third less to turn than planes would be.
    if (across != kRight) step.turn();
    const Floats scale = hn::Set(d, factor);
    Bits most = hn::Zero(bits);
    ENNEAD_NO_UNROLL
    for (int i = 0; i < kSide; ++i) {
      const Floats low = hn::Mul(step.low[i], scale), high = hn::Mul(step.high[i], scale);
      const Bits larger = hn::Max(magnitudes(low), magnitudes(high));
      if constexpr (kRight) {
        most = hn::Max(most, larger);
        if (keep) {
          store_pairs_but(keep + half * kSide, not_split(low, high), to + i * 64);
        } else {
          store_pairs(split(low, high), to + i * 64);
        }
      } else {
        if (maxima) maxima->add_to_line(half * kSide + i, larger);
        store_pairs(split(low, high), to + i * 64);
      }
    }
    if (kRight && maxima) maxima->add_to_half(half, most);
  }
}

constexpr std::int64_t depth_steps(std::int64_t depth) { return ceil_div(depth, kStepDepth); }
constexpr std::int64_t panel_bytes(std::int64_t depth) { return depth_steps(depth) * kStepBytes; }

/// Elements [k0, k0 + depth) of `count` <= 32 lines as a panel.
template <Side kSideOf>
void split_panel(const View<const float, 2>& lines, std::int64_t line0, std::int64_t count, std::int64_t k0,
                 std::int64_t depth, float factor, char* to, LineMaxima* maxima = nullptr, const char* keep = nullptr) {
  const bool across = lines.stride(0) == 1 && lines.stride(1) != 1;
  for (std::int64_t k = 0; k < depth; k += kStepDepth, to += kStepBytes) {
    // Each depth is on a page of its own, which the hardware does not see coming.
    if (across && k + kStepDepth < depth) {
      const float* const next = lines.data + line0 + (k0 + k + kStepDepth) * lines.stride(1);
      for (std::int64_t j = 0; j < kStepDepth; ++j) {
        __builtin_prefetch(next + j * lines.stride(1), 0, 2);
        __builtin_prefetch(next + j * lines.stride(1) + kSide, 0, 2);
      }
    }
    split_step<kSideOf>(lines, line0, count, k0 + k, factor, to, maxima, keep);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
