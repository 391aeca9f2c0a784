// SPDX-License-Identifier: Apache-2.0
// Operands of a product rearranged in the order in which the tiles read them.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_PACK_INL_H_
#undef ENNEAD_KERNELS_SIMD_PACK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_PACK_INL_H_
#endif
#include "kernels/simd/tiles-inl.h"
#include "kernels/simd/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Columns in a panel. The last panel of a matrix is narrower: as many whole vectors as it needs.
template <class T>
constexpr std::int64_t kPanelColumns = kGemmTile.vectors* kLanes<T>;

/// Elements of the panels of a [depth, columns] matrix.
template <class T>
constexpr std::int64_t panel_elements(std::int64_t depth, std::int64_t columns) {
  return depth * ceil_div(columns, kLanes<T>) * kLanes<T>;
}

/// Packs columns [column0, column0 + kPanelColumns) of alpha * b [depth, columns] into the panel at
/// `panel`: [depth][width], zeros beyond the last column.
template <class T>
void pack_panel(View<const T, 2> b, std::int64_t column0, T alpha, T* panel) {
  const std::int64_t depth = b.size(0), left = std::min(kPanelColumns<T>, b.size(1) - column0);
  const std::int64_t width = ceil_div(left, kLanes<T>) * kLanes<T>;
  const T* source = b.data + column0 * b.stride(1);
  if (b.stride(1) == 1) {
    const Vec<T> factor = hn::Set(Tag<T>(), alpha);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < width; j += kLanes<T>) {
        hn::StoreU(hn::Mul(load_first(source + k * b.stride(0) + j, left - j), factor), Tag<T>(),
                   panel + k * width + j);
      }
    }
    return;
  }
  for (std::int64_t j = 0; j < width; ++j) {
    for (std::int64_t k = 0; k < depth; ++k) {
      panel[k * width + j] = j < left ? alpha * source[k * b.stride(0) + j * b.stride(1)] : T(0);
    }
  }
}

/// The rows of a block cut into tiles of nearly the same height, none higher than kGemmTile.rows: a
/// tile of one row would wait for each multiply-add.
struct RowSplit {
  std::int64_t tiles, rows_each, higher;

  explicit RowSplit(std::int64_t rows) {
    tiles = ceil_div(rows, kGemmTile.rows);
    rows_each = tiles == 0 ? 0 : rows / tiles;
    higher = rows - tiles * rows_each;
  }
  std::int64_t first_row(std::int64_t tile) const { return tile * rows_each + std::min(tile, higher); }
  std::int64_t num_rows(std::int64_t tile) const { return rows_each + (tile < higher ? 1 : 0); }
};

/// Packs rows for tiles: [tile][depth][rows of the tile].
template <class T>
void pack_rows(std::int64_t rows, std::int64_t depth, const T* a, std::int64_t row_stride, std::int64_t depth_stride,
               T* packed) {
  const RowSplit split(rows);
  for (std::int64_t tile = 0; tile < split.tiles; ++tile) {
    const T* source = a + split.first_row(tile) * row_stride;
    const std::int64_t height = split.num_rows(tile);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t i = 0; i < height; ++i) *packed++ = source[k * depth_stride + i * row_stride];
    }
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
