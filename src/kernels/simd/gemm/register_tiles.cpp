// SPDX-License-Identifier: Apache-2.0
// The tiles that every GEMM is made of, in all their shapes.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/gemm/register_tiles.cpp"
#include "kernels/shared/targets.h"
#include "kernels/simd/gemm/register_tile-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// A tile so deep asks for the lines of its result before it starts: stores to lines that are far away hold up the
/// tile that follows (3 points). A shallower one would wait for them instead.
constexpr std::int64_t kDeep = 256;

/// Multiplies with the first kVectors of the kPanelVectors of a panel.
template <int kRows, int kVectors, int kPanelVectors, bool kPacked, class T>
HWY_NOINLINE void multiply_tile(const TileArgs<T>& tile) {
  const Tag<T> d;
  Vec<T> acc[kRows][kVectors];
  const std::int64_t stride = tile.c_stride;
  if (tile.start) {
    if (tile.depth >= kDeep) {
      ENNEAD_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        ENNEAD_UNROLL
        for (int i = 0; i < kRows; ++i) fetch_line_to_write(tile.columns[j] + i * stride);
      }
    }
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const Vec<T> start = hn::LoadU(d, tile.start + j * kLanes<T>);
      ENNEAD_UNROLL
      for (int i = 0; i < kRows; ++i) acc[i][j] = start;
    }
  } else {
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      ENNEAD_UNROLL
      for (int i = 0; i < kRows; ++i) acc[i][j] = hn::LoadU(d, tile.columns[j] + i * stride);
    }
  }
  const Panel<T, kPanelVectors * kLanes<T>> panel{tile.panel};
  if constexpr (kPacked) {
    accumulate(tile.depth, PackedRows<T, kRows>{tile.rows}, panel, tile.fetch, acc);
  } else {
    accumulate(tile.depth, PlainRows<T, kRows>(tile.rows, tile.row_stride), panel, tile.fetch, acc);
  }
  ENNEAD_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) hn::StoreU(acc[i][j], d, tile.columns[j] + i * stride);
  }
}

/// The tiles of all heights, [rows - 1].
template <int kVectors, int kPanelVectors, bool kPacked, class T, std::size_t... kIndex>
TileFunction<T> tile_of_rows(std::int64_t rows, std::index_sequence<kIndex...>) {
  static constexpr TileFunction<T> kTiles[] = {
      multiply_tile<static_cast<int>(kIndex) + 1, kVectors, kPanelVectors, kPacked, T>...};
  return kTiles[rows - 1];
}

template <int kVectors, int kPanelVectors, bool kPacked, class T>
TileFunction<T> tile_of_rows(std::int64_t rows) {
  return tile_of_rows<kVectors, kPanelVectors, kPacked, T>(rows, std::make_index_sequence<tile_rows(kVectors)>());
}

/// tile_function() for panels of at most kPanelVectors.
template <int kPanelVectors, class T>
TileFunction<T> tile_of_panel(const TileShape& shape) {
  if constexpr (kPanelVectors > 1) {
    if (shape.panel_vectors < kPanelVectors) return tile_of_panel<kPanelVectors - 1, T>(shape);
  }
  if (!shape.packed) return tile_of_rows<kPanelVectors, kPanelVectors, false, T>(shape.rows);
  if constexpr (kPanelVectors <= kGemmTile.vectors) {
    return tile_of_rows<kPanelVectors, kPanelVectors, true, T>(shape.rows);
  } else {
    constexpr int kHalf = kPanelVectors / 2;
    if (shape.vectors == kHalf) return tile_of_rows<kHalf, kPanelVectors, true, T>(shape.rows);
    return tile_of_rows<kPanelVectors - kHalf, kPanelVectors, true, T>(shape.rows);
  }
}

template <class T>
TileFunction<T> tile_function(const TileShape& shape) {
  return tile_of_panel<kWideTile.vectors, T>(shape);
}

#define ENNEAD_INSTANTIATE(dtype, T, SumType) \
  ENNEAD_VECTORS_##dtype(template TileFunction<T> tile_function<T>(const TileShape& shape);)
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
