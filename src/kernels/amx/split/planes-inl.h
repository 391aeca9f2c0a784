// SPDX-License-Identifier: Apache-2.0
// float32 numbers as three planes of bfloat16, after Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial
// intelligence datatype for higher-precision computations", 2019.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_SPLIT_PLANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_SPLIT_PLANES_INL_H_
#undef ENNEAD_KERNELS_AMX_SPLIT_PLANES_INL_H_
#else
#define ENNEAD_KERNELS_AMX_SPLIT_PLANES_INL_H_
#endif
#include "kernels/amx/tile/tile_registers-inl.h"
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

/// Where row `row` of a panel lies in its first slice.
constexpr std::int64_t row_offset(std::int64_t row) { return row / kSide * kRegisterBytes + row % kSide * 64; }

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
