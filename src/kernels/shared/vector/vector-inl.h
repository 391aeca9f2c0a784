// SPDX-License-Identifier: Apache-2.0
// Short names for Highway's vectors, and loads of part of one.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_VECTOR_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_VECTOR_VECTOR_INL_H_
#undef ENNEAD_KERNELS_SHARED_VECTOR_VECTOR_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_VECTOR_VECTOR_INL_H_
#endif
// clang-format on

// Compilers unroll short loops over k fully and then run out of registers: 15-20 points lost.
#if defined(__clang__)
#define ENNEAD_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define ENNEAD_NO_UNROLL _Pragma("GCC unroll 1")
#endif
// Loops over the registers of a tile must be unrolled for the tile to be in registers at all.
#define ENNEAD_UNROLL _Pragma("GCC unroll 32")

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
/// Elements in a vector.
template <class T>
constexpr std::int64_t kLanes = static_cast<std::int64_t>(HWY_LANES(T));

/// Elements of a row of `count`, rounded up to whole vectors.
template <class T>
constexpr std::int64_t padded_row(std::int64_t count) {
  return ceil_div(count, kLanes<T>) * kLanes<T>;
}

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// The first min(count, kLanes) elements at p, then zeros; reads nothing beyond them.
template <class T>
HWY_INLINE Vec<T> load_first(const T* p, std::int64_t count) {
  const Tag<T> d;
  if (count >= kLanes<T>) return hn::LoadU(d, p);
  if (count <= 0) return hn::Zero(d);
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN T buffer[kLanes<T>] = {};
  std::memcpy(buffer, p, static_cast<std::size_t>(count) * sizeof(T));
  return hn::Load(d, buffer);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#endif
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
