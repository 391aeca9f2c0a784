// SPDX-License-Identifier: Apache-2.0
// float32 operands as three planes of bfloat16 in the layout of tiles.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_SPLIT_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_SPLIT_PANELS_INL_H_
#undef ENNEAD_KERNELS_AMX_SPLIT_PANELS_INL_H_
#else
#define ENNEAD_KERNELS_AMX_SPLIT_PANELS_INL_H_
#endif
#include "kernels/amx/split/magnitudes-inl.h"
#include "kernels/shared/fetch-inl.h"
#include "kernels/shared/vector/transpose-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// The elements of 16 lines in a slice of depth, one vector for each of 16 pairs: of a line's elements where those lie
/// side by side, else of 16 lines. Filled up with zeros.
struct HalfSlice {
  Floats low[kSide], high[kSide];

  /// Rows `stride` apart, of which `rows` are there: 16 pairs of each.
  HWY_NOINLINE void load_along(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t depth) {
    const Tag<float> d;
    if (HWY_LIKELY(rows >= kSide && depth >= kSliceDepth)) {
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
    if (HWY_LIKELY(lines >= kSide && depth >= kSliceDepth)) {
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
  HWY_NOINLINE void transpose() {
    transpose_square<float>(low);
    transpose_square<float>(high);
  }
};

/// How an operand lies: rows of the left one hold what is summed over side by side, pairs of the right one are rows.
enum class Side { left, right };

/// Elements [k0, k0 + 32) of `count` lines (rows of a left operand, columns of a right one) from line0 as one slice of
/// a panel, times factor, filled up with zeros. lines: [lines, depth], any strides. The largest magnitudes of the
/// products go to `maxima`. keep: of a right operand that is split already, lines whose byte is 0 are put there whole.
template <Side kSideOf>
void split_slice(const View<const float, 2>& lines, std::int64_t line0, std::int64_t count, std::int64_t k0,
                 float factor, char* to, LineMaxima* maxima = nullptr, const char* keep = nullptr) {
  const Tag<float> d;
  const BitsTag bits;
  constexpr bool kRight = kSideOf == Side::right;
  const std::int64_t depth = std::min(kSliceDepth, lines.size(1) - k0);
  const bool across = lines.stride(0) == 1 && lines.stride(1) != 1;
  for (int half = 0; half < (count > kSide ? 2 : 1); ++half, to += kRegisterBytes) {
    const std::int64_t line = line0 + half * kSide, left = std::min<std::int64_t>(kSide, count - half * kSide);
    const float* const from = lines.data + line * lines.stride(0) + k0 * lines.stride(1);
    HalfSlice slice;
    if (across) {
      slice.load_across(from, lines.stride(1), left, depth);
    } else if (lines.stride(1) == 1 || depth == 1) {
      slice.load_along(from, lines.stride(0), left, depth);
    } else {
      alignas(64) float gathered[kSide * kSliceDepth];
      for (std::int64_t i = 0; i < left; ++i) {
        for (std::int64_t k = 0; k < depth; ++k) {
          gathered[i * kSliceDepth + k] = from[i * lines.stride(0) + k * lines.stride(1)];
        }
      }
      slice.load_along(gathered, kSliceDepth, left, depth);
    }
    // Transposed before they are split: planes would be half as much again.
    if (across != kRight) slice.transpose();
    const Floats scale = hn::Set(d, factor);
    Bits most = hn::Zero(bits);
    ENNEAD_NO_UNROLL
    for (int i = 0; i < kSide; ++i) {
      const Floats low = hn::Mul(slice.low[i], scale), high = hn::Mul(slice.high[i], scale);
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

constexpr std::int64_t panels_of(std::int64_t count) { return ceil_div(count, kPanel); }
constexpr std::int64_t depth_slices(std::int64_t depth) { return ceil_div(depth, kSliceDepth); }
constexpr std::int64_t panel_bytes(std::int64_t depth) { return depth_slices(depth) * kSliceBytes; }

/// Elements [k0, k0 + depth) of `count` <= 32 lines as a panel.
template <Side kSideOf>
void split_panel(const View<const float, 2>& lines, std::int64_t line0, std::int64_t count, std::int64_t k0,
                 std::int64_t depth, float factor, char* to, LineMaxima* maxima = nullptr, const char* keep = nullptr) {
  const bool across = lines.stride(0) == 1 && lines.stride(1) != 1;
  for (std::int64_t k = 0; k < depth; k += kSliceDepth, to += kSliceBytes) {
    // Each depth is on a page of its own, which the hardware does not see coming.
    if (across && k + kSliceDepth < depth) {
      const float* const next = lines.data + line0 + (k0 + k + kSliceDepth) * lines.stride(1);
      for (std::int64_t j = 0; j < kSliceDepth; ++j) {
        fetch_line_to_second_level(next + j * lines.stride(1));
        fetch_line_to_second_level(next + j * lines.stride(1) + kSide);
      }
    }
    split_slice<kSideOf>(lines, line0, count, k0 + k, factor, to, maxima, keep);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
