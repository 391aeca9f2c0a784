// SPDX-License-Identifier: Apache-2.0
// Keys and values in the layouts the tiles read, with the norms that tell which scores are
// bounded.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_PACK_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_PACK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_PACK_INL_H_
#endif
#include "kernels/shared/vector/transpose-inl.h"
#include "kernels/simd/attention/forward/register_tiles-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// Keys and values of one head, packed. Norms are kept for each step of kStepKeys keys; NaN counts
/// as infinite there.
template <class T>
struct PackedHead {
  std::int64_t head_dim = 0, value_stride = 0;
  T* keys = nullptr;          ///< panels of [head_dim][kPanelKeys], the last one filled up with zeros
  const T* values = nullptr;  ///< rows of value_stride elements, filled up with zeros
  T* key_norms = nullptr;     ///< per step: the largest |k|^2
  T* value_maxima = nullptr;  ///< per step: the largest |v|
  T* value_minima = nullptr;  ///< per step: the smallest |v| that is not 0; infinity where all are

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

/// One panel from keys [key, key + kPanelKeys) of `k`, times `factor`; what lies beyond the last key is zero.
template <class T>
void pack_key_panel(const View<const T, 2>& k, std::int64_t key, T factor, T* panel) {
  const std::int64_t head_dim = k.size(1), keys = std::min(kPanelKeys<T>, k.size(0) - key);
  const T* first = k.data + key * k.stride(0);
  if (k.stride(1) == 1) {
    transpose(first, k.stride(0), keys, head_dim, factor, panel, kPanelKeys<T>);
  } else {
    for (std::int64_t i = 0; i < head_dim; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) {
        panel[i * kPanelKeys<T> + j] = factor * first[j * k.stride(0) + i * k.stride(1)];
      }
    }
  }
  if (keys == kPanelKeys<T>) return;
  for (std::int64_t i = 0; i < head_dim; ++i) {
    std::fill(panel + i * kPanelKeys<T> + keys, panel + (i + 1) * kPanelKeys<T>, T(0));
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

/// Copies a strided row and fills up with zeros.
template <class T>
void copy_row(const T* row, std::int64_t stride, std::int64_t count, T* to, std::int64_t to_stride) {
  const Tag<T> d;
  std::int64_t i = 0;
  for (; stride == 1 && i + kLanes<T> <= count; i += kLanes<T>) hn::Store(hn::LoadU(d, row + i), d, to + i);
  for (; i < count; ++i) to[i] = row[i * stride];
  for (; i < to_stride; ++i) to[i] = T(0);
}

/// |row|^2 of `count` elements; NaN counts as infinite.
template <class T>
T row_norm(const T* row, std::int64_t count) {
  const Tag<T> d;
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += kLanes<T>) {
    const auto x = load_first(row + i, count - i);
    sum = hn::MulAdd(x, x, sum);
  }
  return nan_to_infinity(hn::GetLane(hn::SumOfLanes(d, sum)));
}

/// The magnitudes of some values: the largest, and the smallest that is not 0.
template <class T>
class ValueRange {
 public:
  ValueRange() : largest_(magnitude<T>(hn::Zero(Tag<T>()))), before_least_(hn::Not(largest_)) {}

  /// `count` elements side by side, a multiple of the lanes.
  void add(const T* row, std::int64_t count) {
    const Tag<T> d;
    const hn::RebindToUnsigned<Tag<T>> bits;
    for (std::int64_t i = 0; i < count; i += kLanes<T>) {
      const VecOfBits<T> value = magnitude<T>(hn::Load(d, row + i));
      largest_ = hn::Max(largest_, value);
      // What lies before 0 wraps around and is the largest.
      before_least_ = hn::Min(before_least_, hn::Sub(value, hn::Set(bits, 1)));
    }
  }
  T largest() const { return largest_magnitude<T>(largest_); }
  T least() const {
    using Bits = hn::TFromD<hn::RebindToUnsigned<Tag<T>>>;
    HWY_ALIGN Bits lanes[kLanes<T>];
    hn::Store(before_least_, hn::RebindToUnsigned<Tag<T>>(), lanes);
    const Bits before = *std::min_element(lanes, lanes + kLanes<T>);
    if (static_cast<Bits>(~before) == 0) return std::numeric_limits<T>::infinity();
    const Bits bits = static_cast<Bits>(before + 1);
    // Not std::bit_cast, which the standard library of Debian 12's emscripten lacks.
    T least;
    hwy::CopySameSize(&bits, &least);
    return nan_to_infinity(least);
  }

 private:
  VecOfBits<T> largest_, before_least_;
};

/// Packs `k`, the keys of one step, times `factor`, and takes their norm.
template <class T>
void pack_keys(const View<const T, 2>& k, T factor, std::int64_t step, const PackedHead<T>& head) {
  auto norm = magnitude<T>(hn::Zero(Tag<T>()));
  for (std::int64_t key = 0; key < k.size(0); key += kPanelKeys<T>) {
    T* panel = head.panel(step * kStepKeys + key);
    pack_key_panel(k, key, factor, panel);
    norm = hn::Max(norm, panel_norm(panel, head.head_dim));
  }
  head.key_norms[step] = largest_magnitude<T>(norm);
}

/// Whether values lie as the tiles read them.
template <class T>
bool values_in_place(const View<const T, 2>& v) {
  return v.stride(1) == 1 && v.stride(0) == v.size(1) && v.size(1) % kLanes<T> == 0 &&
         reinterpret_cast<std::uintptr_t>(v.data) % (kLanes<T> * sizeof(T)) == 0;
}

/// Packs the keys of one step, times `factor`, and its values too, into `values`, unless they are used in place.
template <class T>
void pack_step(const View<const T, 2>& k, T factor, const View<const T, 2>& v, std::int64_t step, T* values,
               const PackedHead<T>& head) {
  const std::int64_t begin = step * kStepKeys, keys = std::min(k.size(0) - begin, kStepKeys);
  pack_keys(View<const T, 2>{k.data + begin * k.stride(0), {keys, k.size(1)}, {k.stride(0), k.stride(1)}}, factor, step,
            head);
  ValueRange<T> range;
  for (std::int64_t key = begin; key < begin + keys; ++key) {
    const std::int64_t at = key * head.value_stride;
    if (head.values == values)
      copy_row(v.data + key * v.stride(0), v.stride(1), v.size(1), values + at, head.value_stride);
    range.add(head.values + at, head.value_stride);
  }
  head.value_maxima[step] = range.largest();
  head.value_minima[step] = range.least();
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
