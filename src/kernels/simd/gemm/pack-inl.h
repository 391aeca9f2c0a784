// SPDX-License-Identifier: Apache-2.0
// Operands of a product rearranged in the order in which the tiles read them.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_PACK_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_PACK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_PACK_INL_H_
#endif
#include "kernels/shared/vector/transpose-inl.h"
#include "kernels/simd/gemm/tile_shapes-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// Elements of the panels of a [depth, columns] matrix.
template <class T>
constexpr std::int64_t panel_elements(std::int64_t depth, std::int64_t columns) {
  return depth * ceil_div(columns, kLanes<T>) * kLanes<T>;
}

/// The columns of a matrix cut into panels as wide as kGemmTile, the last ones as kWideTile where that comes
/// out even. The last vector of columns is filled up.
template <class T>
class PanelSplit {
 public:
  explicit PanelSplit(std::int64_t columns) : vectors_(ceil_div(columns, kLanes<T>)) {
    const std::int64_t left = vectors_ % kGemmTile.vectors;
    if (kWideTile.vectors > kGemmTile.vectors && left * kWideTile.vectors <= vectors_) wide_ = left;
    narrow_ = ceil_div(vectors_ - wide_ * kWideTile.vectors, kGemmTile.vectors);
  }

  std::int64_t panels() const { return narrow_ + wide_; }
  std::int64_t first_vector(std::int64_t panel) const {
    const std::int64_t wide = std::max<std::int64_t>(0, panel - narrow_);
    return std::min(vectors_, (panel - wide) * kGemmTile.vectors + wide * kWideTile.vectors);
  }
  std::int64_t first_column(std::int64_t panel) const { return first_vector(panel) * kLanes<T>; }
  std::int64_t num_vectors(std::int64_t panel) const { return first_vector(panel + 1) - first_vector(panel); }

 private:
  static_assert(kWideTile.vectors <= kGemmTile.vectors + 1);
  std::int64_t vectors_, wide_ = 0, narrow_;
};

/// w [out, in] as the [in, out] matrix that panels are made of.
template <class T>
View<const T, 2> transposed(const View<const T, 2>& w) {
  return {w.data, {w.size(1), w.size(0)}, {w.stride(1), w.stride(0)}};
}

/// Packs columns [column0, column0 + count) of alpha * b [depth, columns] and zeros up to `filled` columns,
/// whole vectors, into rows `width` apart.
template <class T>
void pack_columns(View<const T, 2> b, std::int64_t column0, std::int64_t count, std::int64_t filled, T alpha, T* panel,
                  std::int64_t width) {
  const std::int64_t depth = b.size(0);
  const T* source = b.data + column0 * b.stride(1);
  if (b.stride(1) == 1) {
    const Vec<T> factor = hn::Set(Tag<T>(), alpha);
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < filled; j += kLanes<T>) {
        const Vec<T> row = load_first(source + k * b.stride(0) + j, count - j);
        hn::StoreU(hn::Mul(row, factor), Tag<T>(), panel + k * width + j);
      }
    }
    return;
  }
  if (b.stride(0) == 1) {
    transpose(source, b.stride(1), count, depth, alpha, panel, width);
  } else {
    for (std::int64_t k = 0; k < depth; ++k) {
      for (std::int64_t j = 0; j < count; ++j) {
        panel[k * width + j] = alpha * source[k * b.stride(0) + j * b.stride(1)];
      }
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) std::fill(panel + k * width + count, panel + k * width + filled, T(0));
}

/// Packs one panel of alpha * b [depth, columns].
template <class T>
void pack_panel(View<const T, 2> b, const PanelSplit<T>& split, std::int64_t panel, T alpha, T* panels) {
  const std::int64_t column = split.first_column(panel), width = split.num_vectors(panel) * kLanes<T>;
  pack_columns(b, column, std::min(width, b.size(1) - column), width, alpha, panels + column * b.size(0), width);
}

/// Packs all panels of alpha * b, one after the other.
template <class T>
void pack_panels(View<const T, 2> b, T alpha, T* panels) {
  const PanelSplit<T> split(b.size(1));
  for (std::int64_t panel = 0; panel < split.panels(); ++panel) pack_panel(b, split, panel, alpha, panels);
}

/// The rows of a block cut into tiles of nearly the same height, none higher than `highest`: a tile of
/// one row would wait for each multiply-add.
struct RowSplit {
  std::int64_t tiles, rows_each, higher;

  RowSplit(std::int64_t rows, std::int64_t highest) {
    tiles = ceil_div(rows, highest);
    rows_each = tiles == 0 ? 0 : rows / tiles;
    higher = rows - tiles * rows_each;
  }
  std::int64_t first_row(std::int64_t tile) const { return tile * rows_each + std::min(tile, higher); }
  std::int64_t num_rows(std::int64_t tile) const { return rows_each + (tile < higher ? 1 : 0); }
};

/// Packs rows for tiles as high as kGemmTile: [tile][depth][rows of the tile]. Depth is the outer loop because rows
/// that need packing usually lie side by side.
template <class T>
void pack_rows(std::int64_t rows, std::int64_t depth, const T* a, std::int64_t row_stride, std::int64_t depth_stride,
               T* packed) {
  const RowSplit split(rows, kGemmTile.rows);
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

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
