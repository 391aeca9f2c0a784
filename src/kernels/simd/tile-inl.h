// SPDX-License-Identifier: Apache-2.0
// The product of a few rows with a panel of packed columns: every GEMM is made of this tile.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_TILE_INL_H_
#undef ENNEAD_KERNELS_SIMD_TILE_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_TILE_INL_H_
#endif
#include "kernels/simd/tiles-inl.h"
#include "kernels/simd/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// The left operand. Depth is the axis that is summed over.
template <class T>
struct Rows {
  const T* data;
  std::int64_t row_stride, depth_stride;
};

/// acc[i][j] += sum_k rows[i, k] * panel[k][j], k ascending; a row of the panel is kVectors vectors.
/// The order of one element's sum does not depend on the tile's shape, so its bits do not either.
template <int kRows, int kVectors, class T>
HWY_INLINE void accumulate(std::int64_t depth, Rows<T> rows, const T* HWY_RESTRICT panel,
                           Vec<T> (&acc)[kRows][kVectors]) {
  const Tag<T> d;
  const T* HWY_RESTRICT a = rows.data;
  ENNEAD_NO_UNROLL
  for (std::int64_t k = 0; k < depth; ++k) {
    Vec<T> b[kVectors];
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) b[j] = hn::LoadU(d, panel + j * kLanes<T>);
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vec<T> broadcast = hn::Set(d, a[i * rows.row_stride]);
      ENNEAD_UNROLL
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(broadcast, b[j], acc[i][j]);
    }
    a += rows.depth_stride;
    panel += kVectors * kLanes<T>;
  }
}

/// Rows of memory whose columns lie side by side.
template <class T>
struct RowMajor {
  T* data;
  std::int64_t row_stride;
};

/// c = start + rows * panel for one full tile. A bias is a start with row stride 0; to add to c,
/// start from it.
template <int kRows, int kVectors, class T>
HWY_NOINLINE void multiply_tile(std::int64_t depth, Rows<T> rows, const T* HWY_RESTRICT panel, RowMajor<const T> start,
                                RowMajor<T> c) {
  const Tag<T> d;
  Vec<T> acc[kRows][kVectors];
  ENNEAD_UNROLL
  for (int i = 0; i < kRows; ++i) {
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::LoadU(d, start.data + i * start.row_stride + j * kLanes<T>);
  }
  accumulate(depth, rows, panel, acc);
  ENNEAD_UNROLL
  for (int i = 0; i < kRows; ++i) {
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) hn::StoreU(acc[i][j], d, c.data + i * c.row_stride + j * kLanes<T>);
  }
}

template <class T>
using TileFunction = void (*)(std::int64_t depth, Rows<T> rows, const T* HWY_RESTRICT panel, RowMajor<const T> start,
                              RowMajor<T> c);

template <int kVectors, class T, std::size_t... kIndex>
constexpr std::array<TileFunction<T>, sizeof...(kIndex)> tile_functions(std::index_sequence<kIndex...>) {
  return {multiply_tile<static_cast<int>(kIndex) + 1, kVectors, T>...};
}

/// kTileFunctions<kVectors, T>[rows - 1] multiplies a tile of that many rows.
template <int kVectors, class T>
constexpr auto kTileFunctions = tile_functions<kVectors, T>(std::make_index_sequence<kGemmTile.rows>());

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
