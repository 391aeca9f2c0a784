// SPDX-License-Identifier: Apache-2.0
// A block of a matrix product out of tiles: any numbers of rows and columns, any strides of the result.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_BLOCK_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_BLOCK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_BLOCK_INL_H_
#endif
#include "kernels/simd/gemm/pack-inl.h"
#include "kernels/simd/gemm/register_tile-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// Depth is cut into chunks so that a block of rows and a panel stay in the second level cache; a
/// later chunk goes on from the stored sums, which changes no bits.
constexpr std::int64_t kDepthChunk = 1024;
/// Bytes of the left operand in a block of rows: what a second level cache of 1 to 2 MiB holds beside two panels.
/// Blocks of 128 and 256 rows of depth 768 come out the same.
constexpr std::int64_t kBlockBytes = 3 << 18;
/// While a panel is short enough to stay in the first level cache, only a few rows are multiplied
/// with it before the next comes: else the rows of the result, each on its own page, outnumber the
/// entries of the address cache.
constexpr std::int64_t kShallow = 128;
constexpr std::int64_t kShallowRows = 48;  // whole tiles of 6 or 8

/// Rows of the left operand in a block.
template <class T>
constexpr std::int64_t rows_per_block(std::int64_t depth) {
  const std::int64_t bytes_per_row = std::max<std::int64_t>(1, std::min(depth, kDepthChunk)) * std::int64_t{sizeof(T)};
  static_assert(kBlockBytes / (kDepthChunk * sizeof(T)) >= kShallowRows);  // what packed_rows_elements() rests on
  const std::int64_t tiles = std::min<std::int64_t>(kBlockBytes / bytes_per_row / kGemmTile.rows, 96);
  return tiles * kGemmTile.rows;
}

/// Some rows of c = start + a * b, or c + a * b, and panels [first_panel, end_panel) of its columns.
template <class T>
struct Block {
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< columns: of the whole b
  const T* a = nullptr;                           ///< from depth0, depth side by side; or pack_rows() of such
  std::int64_t a_stride = 0;                      ///< between its rows
  bool packed = false;                            ///< a is packed
  const T* panels = nullptr;                      ///< all of b
  std::int64_t first_panel = 0, end_panel = 0;
  std::int64_t panel_depth = 0;                    ///< depth of the whole panels
  std::int64_t depth0 = 0;                         ///< where in it this chunk of `depth` starts
  T* c = nullptr;                                  ///< first row, column 0 of b
  std::int64_t row_stride = 0, column_stride = 1;  ///< of c
  /// In place of c: where each vector of columns starts in the first row. Whole vectors are written.
  T* const* targets = nullptr;
  const T* start = nullptr;  ///< one value per column of b; nullptr: zeros
  bool add = false;          ///< start from c
  /// What the block after this one reads first, to be fetched meanwhile: elements side by side.
  const T* fetch_rows = nullptr;
  std::int64_t fetch_elements = 0;
  bool fetch_panels = true;  ///< false: the block before this one left all panels in the second level cache
};

/// A tile that misses columns, or whose columns do not lie side by side, goes through a buffer.
template <class T>
HWY_NOINLINE void multiply_partial_tile(TileFunction<T> multiply, TileArgs<T> tile, std::int64_t rows,
                                        std::int64_t column_stride, std::int64_t columns) {
  constexpr std::int64_t kWidth = kWideTile.vectors * kLanes<T>;
  T* const c = tile.columns[0];
  const std::int64_t row_stride = tile.c_stride;
  HWY_ALIGN T buffer[kGemmTile.rows * kWidth] = {};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      buffer[i * kWidth + j] = tile.start ? tile.start[j] : c[i * row_stride + j * column_stride];
    }
  }
  tile.start = nullptr;
  for (int j = 0; j < kWideTile.vectors; ++j) tile.columns[j] = buffer + j * kLanes<T>;
  tile.c_stride = kWidth;
  multiply(tile);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) c[i * row_stride + j * column_stride] = buffer[i * kWidth + j];
  }
}

/// Where a chunk of a panel's depth starts.
template <class T>
const T* panel_chunk(const Block<T>& block, const PanelSplit<T>& split, std::int64_t panel) {
  return block.panels + split.first_column(panel) * block.panel_depth +
         block.depth0 * split.num_vectors(panel) * kLanes<T>;
}

/// What to fetch while a panel is multiplied: the next panel, and with the last one the rows of the next
/// block. When all panels are near, those rows are all there is to fetch.
template <class T>
struct FetchSpan {
  const T* data;
  std::int64_t elements;

  FetchSpan(const Block<T>& block, const PanelSplit<T>& split, std::int64_t panel) {
    const std::int64_t panels = block.end_panel - block.first_panel, index = panel - block.first_panel;
    if (block.fetch_rows && (!block.fetch_panels || index + 1 == panels)) {
      const std::int64_t begin = block.fetch_panels ? 0 : block.fetch_elements * index / panels;
      const std::int64_t end = block.fetch_panels ? block.fetch_elements : block.fetch_elements * (index + 1) / panels;
      data = block.fetch_rows + begin;
      elements = end - begin;
    } else {
      const std::int64_t next = index + 1 < panels ? panel + 1 : block.first_panel;
      data = panel_chunk(block, split, next);
      elements = block.depth * split.num_vectors(next) * kLanes<T>;
    }
  }
};

/// Rows [first_row, end_row) of a block times `vectors` of a panel, from its vector `vector0`. Meanwhile what comes
/// next is fetched: a panel that is read only when it is needed, from a third level cache many cores away, costs as
/// much as 6 points.
template <class T>
void multiply_vectors(const Block<T>& block, std::int64_t first_row, std::int64_t end_row, const PanelSplit<T>& split,
                      std::int64_t panel, std::int64_t vector0, std::int64_t vectors) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  HWY_ALIGN static constexpr T kZeros[kWideTile.vectors * kLanes<T>] = {};
  const std::int64_t first_vector = split.first_vector(panel) + vector0, column0 = first_vector * kLanes<T>;
  const std::int64_t width = vectors * kLanes<T>, columns = std::min(width, block.columns - column0);
  const bool whole = block.targets || (columns == width && block.column_stride == 1);
  const FetchSpan<T> next(block, split, panel);
  const RowSplit rows_split(end_row - first_row, tile_rows(vectors));

  T* columns0[kWideTile.vectors];
  for (std::int64_t j = 0; j < kWideTile.vectors; ++j) {
    const std::int64_t vector = std::min(j, vectors - 1);
    columns0[j] = block.targets ? block.targets[first_vector + vector]
                                : block.c + column0 * block.column_stride + vector * kLanes<T>;
  }
  TileArgs<T> tile;
  tile.depth = block.depth;
  tile.panel = panel_chunk(block, split, panel) + vector0 * kLanes<T>;
  tile.start = block.add ? nullptr : block.start ? block.start + column0 : kZeros;
  tile.row_stride = block.a_stride;
  tile.c_stride = block.row_stride;
  tile.fetch.data = next.data;
  const std::int64_t iterations = std::max<std::int64_t>(1, rows_split.tiles * (block.depth / 2));
  tile.fetch.stride = std::clamp<std::int64_t>(ceil_div(next.elements, iterations), 1, kLine);
  // Tiles come in two heights, the higher ones first.
  TileFunction<T> multiply = nullptr;
  std::int64_t height = 0;
  for (std::int64_t t = 0; t < rows_split.tiles; ++t) {
    const std::int64_t row0 = first_row + rows_split.first_row(t), rows = rows_split.num_rows(t);
    if (rows != height) {
      height = rows;
      multiply = tile_function<T>({rows, vectors, split.num_vectors(panel), block.packed});
    }
    tile.rows = block.a + row0 * (block.packed ? block.depth : block.a_stride);
    for (int j = 0; j < kWideTile.vectors; ++j) tile.columns[j] = columns0[j] + row0 * block.row_stride;
    if (whole) {
      multiply(tile);
    } else {
      multiply_partial_tile(multiply, tile, rows, block.column_stride, columns);
    }
    tile.fetch.data = std::min(next.data + next.elements, tile.fetch.data + block.depth / 2 * tile.fetch.stride);
  }
}

/// Rows [first_row, end_row) of a block times a panel.
template <class T>
void multiply_panel(const Block<T>& block, std::int64_t first_row, std::int64_t end_row, const PanelSplit<T>& split,
                    std::int64_t panel) {
  const std::int64_t vectors = split.num_vectors(panel);
  if (!block.packed || vectors <= kGemmTile.vectors) {
    multiply_vectors(block, first_row, end_row, split, panel, 0, vectors);
  } else {
    // Rows are packed for tiles as high as kGemmTile, which cannot be as wide.
    const std::int64_t half = vectors / 2;
    multiply_vectors(block, first_row, end_row, split, panel, 0, half);
    multiply_vectors(block, first_row, end_row, split, panel, half, vectors - half);
  }
}

template <class T>
void multiply_block(const Block<T>& block) {
  const PanelSplit<T> split(block.columns);
  // Packed rows must be cut into tiles as pack_rows() cut them: all at once.
  const bool shallow = block.depth <= kShallow && !block.packed;
  const std::int64_t step = shallow ? kShallowRows : std::max<std::int64_t>(1, block.rows);
  for (std::int64_t row = 0; row < block.rows; row += step) {
    for (std::int64_t panel = block.first_panel; panel < block.end_panel; ++panel) {
      multiply_panel(block, row, std::min(block.rows, row + step), split, panel);
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

/// Multiplies block.rows rows of `a`, from `row0`, over the whole depth. The next call will probably be for
/// the rows from `next_row`.
template <class T>
void multiply_chunks(Block<T> block, const View<const T, 2>& a, std::int64_t row0, std::int64_t next_row,
                     T* packed_rows) {
  block.panel_depth = a.size(1);
  block.packed = !reads_in_place(a);
  const std::int64_t a_stride = a.size(1) == 0 ? 0 : a.stride(0);  // without depth there may be no data
  const bool side_by_side = a.stride(0) == a.size(1) && !block.packed && block.panel_depth <= kDepthChunk;
  if (side_by_side && next_row < a.size(0)) {
    block.fetch_rows = a.data + next_row * a.stride(0);
    block.fetch_elements = std::min(block.rows, a.size(0) - next_row) * block.panel_depth;
  }
  do {
    block.depth = std::min(kDepthChunk, block.panel_depth - block.depth0);
    block.a = a.data + row0 * a_stride + block.depth0 * a.stride(1);
    block.a_stride = a_stride;
    if (block.packed) {
      pack_rows(block.rows, block.depth, block.a, a.stride(0), a.stride(1), packed_rows);
      block.a = packed_rows;
    }
    multiply_block(block);
    block.add = true;
    block.depth0 += block.depth;
  } while (block.depth0 < block.panel_depth);
}

/// How a product is cut into tasks: blocks of rows, times groups of panels where those are too few to
/// go round. Not a matter of bits: no sum is cut.
struct ProductCut {
  std::int64_t block_rows, row_blocks, panels, group_panels, groups;

  std::int64_t tasks() const { return row_blocks * groups; }
  std::int64_t first_row(std::int64_t task) const { return task / groups * block_rows; }
  /// Sets rows, c (from `c`, that of row 0) and panels of a task's block.
  template <class T>
  void place(std::int64_t task, std::int64_t rows, T* c, Block<T>& block) const {
    const std::int64_t row0 = first_row(task), group = task % groups;
    block.rows = std::min(block_rows, rows - row0);
    block.first_panel = group * group_panels;
    block.end_panel = std::min(panels, block.first_panel + group_panels);
    block.c = c + row0 * block.row_stride;
  }
};

template <class T>
ProductCut cut_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, int threads) {
  constexpr std::int64_t kOne = 1, kTasksPerThread = 8;
  ProductCut cut;
  cut.panels = PanelSplit<T>(columns).panels();
  // Rows that meet one panel only are read once: a few are in use while the next few come.
  cut.block_rows = cut.panels == 1 ? kShallowRows : rows_per_block<T>(depth);
  cut.row_blocks = ceil_div(rows, cut.block_rows);
  const std::int64_t wanted = threads == 1 ? kOne : ceil_div(kTasksPerThread * threads, std::max(kOne, cut.row_blocks));
  cut.group_panels = std::max(kOne, cut.panels / std::min(wanted, std::max(kOne, cut.panels)));
  cut.groups = ceil_div(cut.panels, cut.group_panels);
  return cut;
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
