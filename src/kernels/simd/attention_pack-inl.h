// SPDX-License-Identifier: Apache-2.0
// Keys, values and queries in the layouts the tiles read, with the norms that tell which scores are
// bounded.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_PACK_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_PACK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_PACK_INL_H_
#endif
#include "kernels/simd/attention_tiles-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Elements of a row of `count`, rounded up to whole vectors.
template <class T>
constexpr std::int64_t padded_row(std::int64_t count) {
  return ceil_div(count, kLanes<T>) * kLanes<T>;
}

/// Keys and values of one head, packed. Norms are kept for each step of kStepKeys keys; NaN counts
/// as infinite there.
template <class T>
struct PackedHead {
  std::int64_t head_dim = 0, value_stride = 0;
  T* keys = nullptr;          ///< panels of [head_dim][kPanelKeys], the last one filled up with zeros
  T* values = nullptr;        ///< rows of value_stride elements, filled up with zeros
  T* key_norms = nullptr;     ///< per step: the largest |k|^2
  T* value_maxima = nullptr;  ///< per step: the largest |v|

  T* panel(std::int64_t key) const { return keys + key * head_dim; }
};

template <class T>
T nan_to_infinity(T x) {
  return x == x ? x : std::numeric_limits<T>::infinity();
}

/// Bit patterns of magnitudes order as the magnitudes do, with infinity and NaN above all.
template <class T>
using VecOfBits = hn::Vec<hn::RebindToUnsigned<Tag<T>>>;
template <class T>
HWY_INLINE VecOfBits<T> magnitude(Vec<T> x) {
  return hn::BitCast(hn::RebindToUnsigned<Tag<T>>(), hn::Abs(x));
}

/// Largest magnitude in the lanes of `bits`.
template <class T>
T largest_magnitude(VecOfBits<T> bits) {
  const Tag<T> d;
  HWY_ALIGN T lanes[kLanes<T>];
  hn::Store(hn::BitCast(d, bits), d, lanes);
  T largest = T(0);
  for (T x : lanes) largest = std::max(largest, nan_to_infinity(x));
  return largest;
}

/// Four (two for double) rows at once, turned: panel[k][j] = row j's element k.
template <class T>
HWY_INLINE void transpose_rows(const T* HWY_RESTRICT rows, std::int64_t row_stride, std::int64_t head_dim,
                               T* HWY_RESTRICT panel) {
  std::int64_t k = 0;
  if constexpr (sizeof(T) == 4) {
    const hn::CappedTag<T, 4> d;
    for (; k + 4 <= head_dim; k += 4) {
      const auto a = hn::LoadU(d, rows + k), b = hn::LoadU(d, rows + row_stride + k);
      const auto c = hn::LoadU(d, rows + 2 * row_stride + k), e = hn::LoadU(d, rows + 3 * row_stride + k);
      const hn::RepartitionToWide<decltype(d)> dw;
      const auto ab_low = hn::BitCast(dw, hn::InterleaveLower(d, a, b)),
                 ce_low = hn::BitCast(dw, hn::InterleaveLower(d, c, e));
      const auto ab_high = hn::BitCast(dw, hn::InterleaveUpper(d, a, b)),
                 ce_high = hn::BitCast(dw, hn::InterleaveUpper(d, c, e));
      T* to = panel + k * kPanelKeys<T>;
      hn::Store(hn::BitCast(d, hn::InterleaveLower(dw, ab_low, ce_low)), d, to);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(dw, ab_low, ce_low)), d, to + kPanelKeys<T>);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(dw, ab_high, ce_high)), d, to + 2 * kPanelKeys<T>);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(dw, ab_high, ce_high)), d, to + 3 * kPanelKeys<T>);
    }
  } else {
    const hn::CappedTag<T, 2> d;
    for (; k + 2 <= head_dim; k += 2) {
      const auto a = hn::LoadU(d, rows + k), b = hn::LoadU(d, rows + row_stride + k);
      T* to = panel + k * kPanelKeys<T>;
      hn::Store(hn::InterleaveLower(d, a, b), d, to);
      hn::Store(hn::InterleaveUpper(d, a, b), d, to + kPanelKeys<T>);
    }
  }
  constexpr std::int64_t kRows = 16 / sizeof(T);
  for (; k < head_dim; ++k) {
    for (std::int64_t j = 0; j < kRows; ++j) panel[k * kPanelKeys<T> + j] = rows[j * row_stride + k];
  }
}

/// One panel from keys [key, key + kPanelKeys) of `k`; what lies beyond the last key is zero.
template <class T>
void pack_key_panel(const View<const T, 2>& k, std::int64_t key, T* panel) {
  constexpr std::int64_t kRows = 16 / sizeof(T);
  const std::int64_t head_dim = k.size(1), stride = k.stride(1);
  const std::int64_t keys = std::min(kPanelKeys<T>, k.size(0) - key);
  std::int64_t j = 0;
  for (; stride == 1 && j + kRows <= keys; j += kRows) {
    transpose_rows(k.data + (key + j) * k.stride(0), k.stride(0), head_dim, panel + j);
  }
  for (; j < kPanelKeys<T>; ++j) {
    const T* row = k.data + (j < keys ? (key + j) * k.stride(0) : 0);
    for (std::int64_t i = 0; i < head_dim; ++i) panel[i * kPanelKeys<T> + j] = j < keys ? row[i * stride] : T(0);
  }
}

/// The largest |k|^2 of a panel, as the bits of its magnitude in every lane.
template <class T>
VecOfBits<T> panel_norm(const T* panel, std::int64_t head_dim) {
  const Tag<T> d;
  Vec<T> norms[kScoreVectors];
  for (Vec<T>& norm : norms) norm = hn::Zero(d);
  for (std::int64_t i = 0; i < head_dim; ++i) {
    ENNEAD_UNROLL
    for (int j = 0; j < kScoreVectors; ++j) {
      const Vec<T> x = hn::Load(d, panel + i * kPanelKeys<T> + j * kLanes<T>);
      norms[j] = hn::MulAdd(x, x, norms[j]);
    }
  }
  VecOfBits<T> largest = magnitude<T>(norms[0]);
  for (int j = 1; j < kScoreVectors; ++j) largest = hn::Max(largest, magnitude<T>(norms[j]));
  return largest;
}

/// Copies a strided row, times `scale` where kScale, and fills up with zeros.
template <bool kScale, class T>
void copy_row(const T* row, std::int64_t stride, std::int64_t count, T scale, T* to, std::int64_t to_stride) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; stride == 1 && i + kLanes<T> <= count; i += kLanes<T>) {
    const auto x = hn::LoadU(d, row + i);
    hn::Store(kScale ? hn::Mul(x, hn::Set(d, scale)) : x, d, to + i);
  }
  for (; i < count; ++i) to[i] = kScale ? row[i * stride] * scale : row[i * stride];
  for (; i < to_stride; ++i) to[i] = T(0);
}

/// |row|^2 of a packed row; NaN counts as infinite.
template <class T>
T row_norm(const T* row, std::int64_t stride) {
  const Tag<T> d;
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < stride; i += kLanes<T>) {
    const auto x = hn::Load(d, row + i);
    sum = hn::MulAdd(x, x, sum);
  }
  return nan_to_infinity(hn::GetLane(hn::SumOfLanes(d, sum)));
}

/// The norms of one step of packed keys and values.
template <class T>
void measure_step(const PackedHead<T>& head, std::int64_t step, std::int64_t num_keys) {
  const Tag<T> d;
  const std::int64_t begin = step * kStepKeys, end = std::min(num_keys, begin + kStepKeys);
  auto norm = magnitude<T>(hn::Zero(d)), largest = norm;
  for (std::int64_t key = begin; key < end; key += kPanelKeys<T>) {
    norm = hn::Max(norm, panel_norm(head.panel(key), head.head_dim));
  }
  const std::int64_t last = end * head.value_stride;
  for (std::int64_t i = begin * head.value_stride; i < last; i += kLanes<T>) {
    largest = hn::Max(largest, magnitude<T>(hn::Load(d, head.values + i)));
  }
  head.key_norms[step] = largest_magnitude<T>(norm);
  head.value_maxima[step] = largest_magnitude<T>(largest);
}

/// Packs the keys and values of one step.
template <class T>
void pack_step(const View<const T, 2>& k, const View<const T, 2>& v, std::int64_t step, const PackedHead<T>& head) {
  const std::int64_t begin = step * kStepKeys, end = std::min(k.size(0), begin + kStepKeys);
  for (std::int64_t key = begin; key < end; key += kPanelKeys<T>) pack_key_panel(k, key, head.panel(key));
  for (std::int64_t key = begin; key < end; ++key) {
    copy_row<false>(v.data + key * v.stride(0), v.stride(1), v.size(1), T(1), head.values + key * head.value_stride,
                    head.value_stride);
  }
  measure_step(head, step, k.size(0));
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
