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

/// `count` columns whose depth lies side by side, `stride` apart, into column 0.. of a panel: four
/// columns at a time are interleaved in registers, since plain transposing costs as much as a tenth
/// of the product when depth is 64.
template <class T>
HWY_INLINE void pack_transposed(const T* source, std::int64_t stride, std::int64_t depth, std::int64_t count, T alpha,
                                T* panel, std::int64_t width) {
  const Tag<T> d;
  const Vec<T> factor = hn::Set(d, alpha);
  const std::int64_t whole = depth / kLanes<T> * kLanes<T>;
  std::int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const T* columns = source + j * stride;
    HWY_ALIGN T interleaved[4 * kLanes<T>];
    for (std::int64_t k = 0; k < whole; k += kLanes<T>) {
      hn::StoreInterleaved4(hn::Mul(hn::LoadU(d, columns + k), factor),
                            hn::Mul(hn::LoadU(d, columns + stride + k), factor),
                            hn::Mul(hn::LoadU(d, columns + 2 * stride + k), factor),
                            hn::Mul(hn::LoadU(d, columns + 3 * stride + k), factor), d, interleaved);
      for (std::int64_t i = 0; i < kLanes<T>; ++i) {
        std::memcpy(panel + (k + i) * width + j, interleaved + 4 * i, 4 * sizeof(T));
      }
    }
    for (std::int64_t k = whole; k < depth; ++k) {
      for (std::int64_t i = 0; i < 4; ++i) panel[k * width + j + i] = alpha * columns[i * stride + k];
    }
  }
  for (; j < count; ++j) {
    for (std::int64_t k = 0; k < depth; ++k) panel[k * width + j] = alpha * source[j * stride + k];
  }
}

/// Packs columns [column0, column0 + kPanelColumns) of alpha * b [depth, columns] into the panel at
/// `panel`: [depth][width], zeros beyond the last column.
template <class T>
void pack_panel(View<const T, 2> b, std::int64_t column0, T alpha, T* panel) {
  const std::int64_t depth = b.size(0), count = std::min(kPanelColumns<T>, b.size(1) - column0);
  const std::int64_t width = ceil_div(count, kLanes<T>) * kLanes<T>;
  const T* source = b.data + column0 * b.stride(1);
  if (b.stride(1) == 1) {
    const Vec<T> factor = hn::Set(Tag<T>(), alpha);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < width; j += kLanes<T>) {
        const Vec<T> row = load_first(source + k * b.stride(0) + j, count - j);
        hn::StoreU(hn::Mul(row, factor), Tag<T>(), panel + k * width + j);
      }
    }
    return;
  }
  if (b.stride(0) == 1) {
    pack_transposed(source, b.stride(1), depth, count, alpha, panel, width);
  } else {
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < count; ++j) {
        panel[k * width + j] = alpha * source[k * b.stride(0) + j * b.stride(1)];
      }
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) std::fill(panel + k * width + count, panel + (k + 1) * width, T(0));
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

/// Packs rows for tiles: [tile][depth][rows of the tile]. Depth is the outer loop because rows that
/// need packing usually lie side by side.
template <class T>
void pack_rows(std::int64_t rows, std::int64_t depth, const T* a, std::int64_t row_stride, std::int64_t depth_stride,
               T* packed) {
  const RowSplit split(rows);
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t tile = 0; tile < split.tiles; ++tile) {
      const std::int64_t row0 = split.first_row(tile), height = split.num_rows(tile);
      const T* source = a + k * depth_stride + row0 * row_stride;
      T* target = packed + row0 * depth + k * height;
      if (row_stride == 1 && height == kGemmTile.rows) {
        std::memcpy(target, source, kGemmTile.rows * sizeof(T));
      } else {
        for (std::int64_t i = 0; i < height; ++i) target[i] = source[i * row_stride];
      }
    }
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
