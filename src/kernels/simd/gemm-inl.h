// SPDX-License-Identifier: Apache-2.0
// A block of a matrix product out of tiles: any numbers of rows and columns, any strides of the result.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_INL_H_
#endif
#include "kernels/simd/pack-inl.h"
#include "kernels/simd/tile-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Depth is cut into chunks so that a block of rows and a panel stay in the second level cache; a
/// later chunk goes on from the stored sums, which changes no bits.
constexpr std::int64_t kDepthChunk = 1024;
/// Bytes of the left operand in a block of rows: what a second level cache of 1 to 2 MiB holds beside
/// a panel. Of 24 interleaved rounds the best with 252 rows of depth 768 was 1-5 points ahead of the best
/// with 84, 168 and 504.
constexpr std::int64_t kBlockBytes = 3 << 18;
/// While a panel is short enough to stay in the first level cache, only a few tiles are multiplied
/// with it before the next comes: else the rows of the result, each on its own page, outnumber the
/// entries of the address cache.
constexpr std::int64_t kShallow = 128;
constexpr std::int64_t kShallowTiles = 4;

/// Rows of the left operand in a block.
template <class T>
constexpr std::int64_t rows_per_block(std::int64_t depth) {
  const std::int64_t bytes_per_row = std::max<std::int64_t>(1, std::min(depth, kDepthChunk)) * std::int64_t{sizeof(T)};
  const std::int64_t tiles = std::clamp<std::int64_t>(kBlockBytes / bytes_per_row / kGemmTile.rows, 4, 96);
  return tiles * kGemmTile.rows;
}

/// c[rows, columns] = start + a * panels, or c + a * panels.
template <class T>
struct Block {
  std::int64_t rows, columns, depth;
  Rows<T> a;
  const T* packed_rows = nullptr;  ///< a through pack_rows(), when its depth stride is not 1
  const T* panels;                 ///< of the first column
  std::int64_t panel_depth;        ///< depth of the whole panels
  std::int64_t depth0 = 0;         ///< where in it this chunk of `depth` starts
  T* c;
  std::int64_t row_stride, column_stride;  ///< of c
  const T* start = nullptr;                ///< one value per column; nullptr: zeros
  bool add = false;                        ///< start from c
};

/// A tile that misses columns, or whose columns do not lie side by side, goes through a buffer.
template <int kVectors, class T>
HWY_NOINLINE void multiply_partial_tile(const Block<T>& block, std::int64_t rows, Rows<T> a, const T* panel,
                                        const T* start, T* c, std::int64_t columns) {
  constexpr std::int64_t kWidth = kVectors * kLanes<T>;
  HWY_ALIGN T buffer[kGemmTile.rows * kWidth] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (block.add) {
        buffer[i * kWidth + j] = c[i * block.row_stride + j * block.column_stride];
      } else if (start) {
        buffer[i * kWidth + j] = start[j];
      }
    }
  }
  kTileFunctions<kVectors, T>[static_cast<std::size_t>(rows - 1)](block.depth, a, panel, {buffer, kWidth},
                                                                  {buffer, kWidth});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      c[i * block.row_stride + j * block.column_stride] = buffer[i * kWidth + j];
    }
  }
}

/// Tiles [first_tile, end_tile) of a block's rows times one panel of kVectors vectors.
template <int kVectors, class T>
HWY_NOINLINE void multiply_panel(const Block<T>& block, const RowSplit& split, std::int64_t first_tile,
                                 std::int64_t end_tile, const T* panel, std::int64_t column0) {
  constexpr std::int64_t kWidth = kVectors * kLanes<T>;
  HWY_ALIGN static constexpr T kZeros[kWidth] = {};
  const std::int64_t columns = std::min(kWidth, block.columns - column0);
  const bool whole = columns == kWidth && block.column_stride == 1;
  const T* start = block.start ? block.start + column0 : nullptr;
  for (std::int64_t tile = first_tile; tile < end_tile; ++tile) {
    const std::int64_t row0 = split.first_row(tile), rows = split.num_rows(tile);
    const Rows<T> a = block.packed_rows ? Rows<T>{block.packed_rows + row0 * block.depth, 1, rows}
                                        : Rows<T>{block.a.data + row0 * block.a.row_stride, block.a.row_stride, 1};
    T* c = block.c + row0 * block.row_stride + column0 * block.column_stride;
    if (whole) {
      const RowMajor<T> target{c, block.row_stride};
      const RowMajor<const T> from =
          block.add ? RowMajor<const T>{c, block.row_stride} : RowMajor<const T>{start ? start : kZeros, 0};
      kTileFunctions<kVectors, T>[static_cast<std::size_t>(rows - 1)](block.depth, a, panel, from, target);
    } else {
      multiply_partial_tile<kVectors>(block, rows, a, panel, start, c, columns);
    }
  }
}

/// multiply_panel() for a panel of `vectors` vectors, at most kVectors.
template <int kVectors, class T>
HWY_INLINE void multiply_any_panel(std::int64_t vectors, const Block<T>& block, const RowSplit& split,
                                   std::int64_t first_tile, std::int64_t end_tile, const T* panel,
                                   std::int64_t column0) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) {
      return multiply_any_panel<kVectors - 1>(vectors, block, split, first_tile, end_tile, panel, column0);
    }
  }
  multiply_panel<kVectors>(block, split, first_tile, end_tile, panel, column0);
}

template <class T>
void multiply_block(const Block<T>& block) {
  const RowSplit split(block.rows);
  const std::int64_t step = block.depth <= kShallow ? kShallowTiles : std::max<std::int64_t>(1, split.tiles);
  for (std::int64_t tile = 0; tile < split.tiles; tile += step) {
    for (std::int64_t column = 0; column < block.columns; column += kPanelColumns<T>) {
      const std::int64_t vectors =
          std::min<std::int64_t>(kGemmTile.vectors, ceil_div(block.columns - column, kLanes<T>));
      const T* panel = block.panels + column * block.panel_depth + block.depth0 * vectors * kLanes<T>;
      multiply_any_panel<kGemmTile.vectors>(vectors, block, split, tile, std::min(split.tiles, tile + step), panel,
                                            column);
    }
  }
}

/// Whether the tiles can read these rows where they lie.
template <class T>
bool reads_in_place(const View<const T, 2>& a) {
  return a.stride(1) == 1 || a.size(1) <= 1;
}

/// Elements of scratch that multiply_chunks() needs for a block of a's rows.
template <class T>
std::int64_t packed_rows_elements(const View<const T, 2>& a) {
  if (reads_in_place(a)) return 0;
  return std::min(a.size(0), rows_per_block<T>(a.size(1))) * std::min(a.size(1), kDepthChunk);
}

/// Multiplies block.rows rows of `a`, from `row0`, over the whole depth. block.c, start and panels are
/// set for the first row and column.
template <class T>
void multiply_chunks(Block<T> block, const View<const T, 2>& a, std::int64_t row0, T* packed_rows) {
  block.panel_depth = a.size(1);
  do {
    block.depth = std::min(kDepthChunk, block.panel_depth - block.depth0);
    block.a = {a.data + row0 * a.stride(0) + block.depth0 * a.stride(1), a.stride(0), a.stride(1)};
    if (!reads_in_place(a)) {
      pack_rows(block.rows, block.depth, block.a.data, block.a.row_stride, block.a.depth_stride, packed_rows);
      block.packed_rows = packed_rows;
    }
    multiply_block(block);
    block.add = true;
    block.depth0 += block.depth;
  } while (block.depth0 < block.panel_depth);
}

/// How a product is cut into tasks: blocks of rows, times groups of panels where those are too few to
/// go round. Not a matter of bits: no sum is cut.
struct ProductCut {
  std::int64_t block_rows, row_blocks, group_columns, groups;
};

template <class T>
ProductCut cut_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, int threads) {
  constexpr std::int64_t kOne = 1, kTasksPerThread = 8;
  ProductCut cut;
  cut.block_rows = rows_per_block<T>(depth);
  cut.row_blocks = ceil_div(rows, cut.block_rows);
  const std::int64_t panels = std::max(kOne, ceil_div(columns, kPanelColumns<T>));
  const std::int64_t wanted = threads == 1 ? kOne : ceil_div(kTasksPerThread * threads, std::max(kOne, cut.row_blocks));
  cut.group_columns = panels / std::min(wanted, panels) * kPanelColumns<T>;
  cut.groups = ceil_div(columns, cut.group_columns);
  return cut;
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
