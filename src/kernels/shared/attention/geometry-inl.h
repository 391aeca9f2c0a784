// SPDX-License-Identifier: Apache-2.0
// The sizes by which attention is cut, and the words of bits that say which keys a row sees.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_ATTENTION_GEOMETRY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_ATTENTION_GEOMETRY_INL_H_
#undef ENNEAD_KERNELS_SHARED_ATTENTION_GEOMETRY_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_ATTENTION_GEOMETRY_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Vectors of keys for which a row of queries has one word of mask bits. Tiles of scores are as wide.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int kWordVectors = 4;
#else
constexpr int kWordVectors = 2;
#endif
template <class T>
constexpr std::int64_t kWordKeys = kWordVectors* kLanes<T>;
static_assert(kWordKeys<float> <= 64);

/// Queries of a block: what a worker does at a time.
constexpr int kBlockQueries = 192;

/// Keys of a step. The norms of its keys are kept together, and its weighted sums start from zero, so steps begin at
/// absolute positions of keys.
constexpr std::int64_t kStepKeys = 256;
static_assert(kStepKeys % 64 == 0);

/// Elements between rows of weights: off the power of two, which would crowd a few cache sets.
constexpr std::int64_t kWeightStride = kStepKeys + 16;

/// A word whose first `count` bits are set.
constexpr std::uint64_t low_bits(std::int64_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

/// Lane j of vector `vector` is on when bit vector * lanes + j of `bits` is set.
template <class T>
HWY_INLINE hn::Mask<Tag<T>> mask_of_bits(std::uint64_t bits, int vector) {
  bits >>= vector * kLanes<T>;
  std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, sizeof(bytes));
  return hn::LoadMaskBits(Tag<T>(), bytes);
}

/// Vectors of a word that hold its first `keys` > 0 keys.
template <class T>
int vectors_of(std::int64_t keys) {
  return static_cast<int>(std::min<std::int64_t>(kWordVectors, ceil_div(keys, kLanes<T>)));
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
