// SPDX-License-Identifier: Apache-2.0
// Squares of numbers transposed in registers: what lies along rows in memory comes to lie along columns.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_VECTOR_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_VECTOR_TRANSPOSE_INL_H_
#undef ENNEAD_KERNELS_SHARED_VECTOR_TRANSPOSE_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_VECTOR_TRANSPOSE_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Elements of the 128-bit blocks that vectors are made of.
template <class T>
constexpr int kBlockLanes = 16 / static_cast<int>(sizeof(T));

/// Transposes 4 rows (2 of float64) block by block: afterwards block b of rows[m] holds element 4 b + m of each.
template <class T>
HWY_INLINE void transpose_in_blocks(Vec<T>* rows) {
  const Tag<T> d;
  if constexpr (sizeof(T) == 4) {
    const hn::RepartitionToWide<Tag<T>> pairs;
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0], rows[1]));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0], rows[1]));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2], rows[3]));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2], rows[3]));
    rows[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
    rows[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
    rows[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
    rows[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
  } else {
    const Vec<T> low = hn::InterleaveLower(d, rows[0], rows[1]);
    rows[1] = hn::InterleaveUpper(d, rows[0], rows[1]);
    rows[0] = low;
  }
}

/// Transposes the blocks of as many vectors as one has blocks: block b of vector g and block g of vector b change
/// places. The vectors are kApart registers apart.
template <class T, int kApart>
HWY_INLINE void transpose_blocks(Vec<T>* rows) {
  const Tag<T> d;
  constexpr std::int64_t kBlocks = kLanes<T> / kBlockLanes<T>;
  if constexpr (kBlocks == 2) {
    const Vec<T> low = hn::ConcatLowerLower(d, rows[kApart], rows[0]);
    rows[kApart] = hn::ConcatUpperUpper(d, rows[kApart], rows[0]);
    rows[0] = low;
  } else if constexpr (kBlocks == 4) {
    const Vec<T> low02 = hn::ConcatLowerLower(d, rows[2 * kApart], rows[0]);
    const Vec<T> high02 = hn::ConcatUpperUpper(d, rows[2 * kApart], rows[0]);
    const Vec<T> low13 = hn::ConcatLowerLower(d, rows[3 * kApart], rows[kApart]);
    const Vec<T> high13 = hn::ConcatUpperUpper(d, rows[3 * kApart], rows[kApart]);
    rows[0] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low13), low02);
    rows[kApart] = hn::OddEvenBlocks(low13, hn::SwapAdjacentBlocks(low02));
    rows[2 * kApart] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high13), high02);
    rows[3 * kApart] = hn::OddEvenBlocks(high13, hn::SwapAdjacentBlocks(high02));
  } else {
    static_assert(kBlocks == 1);
  }
}

/// Transposes a square of kLanes vectors: element j of rows[i] and element i of rows[j] change places.
template <class T>
HWY_INLINE void transpose_square(Vec<T>* rows) {
  constexpr int kSide = static_cast<int>(kLanes<T>), kBlock = kBlockLanes<T>;
  ENNEAD_UNROLL
  for (int j = 0; j < kSide; j += kBlock) transpose_in_blocks<T>(rows + j);
  ENNEAD_UNROLL
  for (int m = 0; m < kBlock; ++m) transpose_blocks<T, kBlock>(rows + m);
}

/// to[i * to_stride + j] = factor * from[j * from_stride + i] for i, j < kLanes.
template <class T>
HWY_INLINE void transpose_square(const T* HWY_RESTRICT from, std::int64_t from_stride, T factor, T* HWY_RESTRICT to,
                                 std::int64_t to_stride) {
  const Tag<T> d;
  constexpr int kSide = static_cast<int>(kLanes<T>);
  const Vec<T> scale = hn::Set(d, factor);
  Vec<T> rows[kSide];
  ENNEAD_UNROLL
  for (int j = 0; j < kSide; ++j) rows[j] = hn::Mul(hn::LoadU(d, from + j * from_stride), scale);
  transpose_square<T>(rows);
  ENNEAD_UNROLL
  for (int i = 0; i < kSide; ++i) hn::StoreU(rows[i], d, to + i * to_stride);
}

/// The same for any numbers of rows and columns: to[i][j] = factor * from[j][i] for i < columns, j < rows.
template <class T>
void transpose(const T* HWY_RESTRICT from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, T factor,
               T* HWY_RESTRICT to, std::int64_t to_stride) {
  const std::int64_t whole_rows = rows / kLanes<T> * kLanes<T>, whole_columns = columns / kLanes<T> * kLanes<T>;
  for (std::int64_t j = 0; j < whole_rows; j += kLanes<T>) {
    for (std::int64_t i = 0; i < whole_columns; i += kLanes<T>) {
      transpose_square(from + j * from_stride + i, from_stride, factor, to + i * to_stride + j, to_stride);
    }
  }
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t i = j < whole_rows ? whole_columns : 0; i < columns; ++i) {
      to[i * to_stride + j] = factor * from[j * from_stride + i];
    }
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
