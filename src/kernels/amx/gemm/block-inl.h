// SPDX-License-Identifier: Apache-2.0
// A matrix product out of panels of split operands.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_GEMM_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_GEMM_BLOCK_INL_H_
#undef ENNEAD_KERNELS_AMX_GEMM_BLOCK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_GEMM_BLOCK_INL_H_
#endif
#include "kernels/amx/gemm/exact-inl.h"
#include "kernels/amx/split/split_work-inl.h"
#include "kernels/amx/tile/fetch_work-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Depth is cut into chunks so that a few panels stay in the second level cache; a later chunk goes on from the stored
/// sums, which changes no bits. A multiple of kSliceDepth.
constexpr std::int64_t kDepthChunk = 1024;
static_assert(kDepthChunk % kSliceDepth == 0);
/// Bytes of what stays in the second level cache while the other operand streams past it.
constexpr std::int64_t kNearOperandBytes = 7 << 17;

/// Panels that stay near, a chunk of their depth.
constexpr std::int64_t near_panels(std::int64_t depth) {
  return kNearOperandBytes / std::max(kSliceBytes, panel_bytes(std::min(depth, kDepthChunk)));
}

/// Where a result lies, from the first element of a tile.
struct Target {
  float* c;
  std::int64_t row_stride, column_stride;
};

/// A tile of at most 32 x 32 of c = start + left * right, or c + left * right.
struct TileArgs {
  std::int64_t slices;  ///< of depth
  const char *left, *right;
  const float* start;  ///< a value per column; nullptr: zeros
  bool add;            ///< go on from c
  std::int64_t rows, columns;
  Target to;
  const float* fetch_c;  ///< where the tile after this one starts in the result
};

/// Brings the lines of the next tile of the result into the second level cache, beside other work: sums that are added
/// to would hold up their tile, and a store that has to wait for its line waits in a buffer that holds little more than
/// one tile.
template <class Work>
class FetchResult {
 public:
  FetchResult(const float* c, std::int64_t stride, int rows, std::int64_t slices, Work& work)
      : at_(reinterpret_cast<const char*>(c)),
        stride_(stride),
        rows_(rows),
        each_turn_(static_cast<int>(ceil_div(rows, std::max<std::int64_t>(1, kProducts * slices)))),
        work_(work) {}
  HWY_INLINE void turn() {
    for (int i = 0; i < each_turn_ && rows_ > 0; ++i, --rows_, at_ += stride_) {
      fetch_line_to_second_level(at_);
      fetch_line_to_second_level(at_ + 64);
    }
    work_.turn();
  }

 private:
  const char* at_;
  std::int64_t stride_;
  int rows_, each_turn_;
  Work& work_;
};

template <int kRows, int kColumns, class Work>
void multiply_halves_of_tile(const TileArgs& tile, const Target& to, Work& work) {
  const std::int64_t stride = to.row_stride * std::int64_t{sizeof(float)};
  if (tile.add) {
    load_sums<kRows, kColumns>(to.c, stride);
  } else if (tile.start) {
    load_sums<kRows, kColumns>(tile.start, 0);
  } else {
    zero_sums<kRows, kColumns>();
  }
  constexpr int kLines = kRows * kSide;
  FetchResult<Work> both(tile.fetch_c, tile.to.row_stride * std::int64_t{sizeof(float)}, kLines, tile.slices, work);
  multiply_panels<kRows, kColumns>(tile.slices, tile.left, tile.right, both);
  store_sums<kRows, kColumns>(to.c, stride);
}

template <class Work>
HWY_INLINE void multiply_shape(const TileArgs& tile, const Target& to, Work& work) {
  if (tile.rows > kSide) {
    if (tile.columns > kSide) return multiply_halves_of_tile<2, 2>(tile, to, work);
    return multiply_halves_of_tile<2, 1>(tile, to, work);
  }
  if (tile.columns > kSide) return multiply_halves_of_tile<1, 2>(tile, to, work);
  return multiply_halves_of_tile<1, 1>(tile, to, work);
}

/// A tile that misses rows or columns, or whose columns do not lie side by side, goes through a
/// buffer.
template <class Work>
HWY_NOINLINE void multiply_partial_tile(TileArgs tile, Work& work) {
  alignas(64) float buffer[kPanel * kPanel] = {};
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      float& start = buffer[i * kPanel + j];
      if (tile.add) {
        start = tile.to.c[i * tile.to.row_stride + j * tile.to.column_stride];
      } else if (tile.start) {
        start = tile.start[j];
      }
    }
  }
  tile.add = true;
  multiply_shape(tile, Target{buffer, kPanel, 1}, work);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      tile.to.c[i * tile.to.row_stride + j * tile.to.column_stride] = buffer[i * kPanel + j];
    }
  }
}

template <class Work>
HWY_INLINE void multiply_tile(const TileArgs& tile, Work& work) {
  const bool whole = tile.rows % kSide == 0 && tile.columns % kSide == 0 && tile.to.column_stride == 1;
  if (whole) {
    multiply_shape(tile, tile.to, work);
  } else {
    multiply_partial_tile(tile, work);
  }
}

/// Of the two operands of a block one stays in the second level cache: the right one, if it fits, while rows stream
/// past it, split in the background one panel ahead; else as many rows as fit, split beforehand.
struct BlockPlan {
  bool right_near;
  std::int64_t row_panels;  ///< multiplied with one right panel after the other
  std::int64_t buffers;     ///< panels of split rows

  BlockPlan(std::int64_t rows, std::int64_t panels, std::int64_t depth) {
    const std::int64_t most = near_panels(depth);
    right_near = panels <= most;
    row_panels = right_near ? 1 : std::clamp<std::int64_t>(ceil_div(rows, kPanel), 1, most - 1);
    buffers = right_near ? 2 : row_panels;
  }
};

/// What a worker needs for a block.
struct BlockScratch {
  char* rows;                 ///< panels of split rows, a chunk of their depth
  std::uint32_t* magnitudes;  ///< per row: the largest
  char* tame;                 ///< per row: whether the multiply unit gets it right
  float* exact;               ///< sums of kExactRows rows, in whole panels

  static BlockScratch take(std::byte*& memory, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    const std::int64_t panels = ceil_div(columns, kPanel), bytes = panel_bytes(std::min(depth, kDepthChunk));
    // A block of fewer panels may keep those near in place of its rows.
    const std::int64_t buffers = std::max<std::int64_t>(2, BlockPlan(rows, panels, depth).buffers);
    BlockScratch scratch;
    scratch.rows = take_scratch<char>(memory, buffers * bytes);
    scratch.magnitudes = take_scratch<std::uint32_t>(memory, rows);
    scratch.tame = take_scratch<char>(memory, rows);
    scratch.exact = take_scratch<float>(memory, kExactRows * panels * kPanel);
    return scratch;
  }
};

/// 32 rows of a block, from `row`, as far as there are any.
struct SplitRows {
  std::int64_t row;
  const char* left;  ///< a chunk of their depth
};

/// Split rows times a panel of b, `depth` of it from k0. Meanwhile a tile of the result is fetched that comes next.
template <class Work>
HWY_INLINE void multiply_split_rows(const BlockArgs& block, const SplitRows& rows, std::int64_t panel, std::int64_t k0,
                                    std::int64_t depth, const float* fetch_c, Work& work) {
  const std::int64_t column = panel * kPanel;
  TileArgs tile;
  tile.slices = depth_slices(depth);
  tile.left = rows.left;
  tile.right = block.b.panel(panel) + k0 / kSliceDepth * kSliceBytes;
  tile.start = block.start ? block.start + column : nullptr;
  tile.add = k0 > 0;
  tile.rows = std::clamp<std::int64_t>(block.rows - rows.row, 0, kPanel);
  tile.columns = std::min(kPanel, block.b.columns - column);
  tile.to = {block.c.data + (block.row0 + rows.row) * block.c.stride(0) + column * block.c.stride(1), block.c.stride(0),
             block.c.stride(1)};
  tile.fetch_c = fetch_c;
  multiply_tile(tile, work);
}

/// A chunk of the depth of a block.
class BlockChunk {
 public:
  BlockChunk(const BlockArgs& block, std::int64_t k0, const BlockScratch& scratch)
      : block_(block),
        scratch_(scratch),
        plan_(block.rows, block.end_panel - block.first_panel, block.b.depth),
        k0_(k0),
        depth_(std::min(kDepthChunk, block.b.depth - k0)),
        turns_(kProducts * depth_slices(depth_)),
        side_by_side_(block.a.stride(1) == 1 || block.a.size(1) <= 1) {}

  /// All rows, with the right operand near.
  void multiply_with_near_right() const {
    const std::int64_t panels = block_.end_panel - block_.first_panel;
    const auto with_all_panels = [&](std::int64_t row, const char* split, auto& work) HWY_ATTR {
      for (std::int64_t panel = block_.first_panel; panel < block_.end_panel; ++panel) {
        const bool last = panel + 1 == block_.end_panel;
        multiply(row, split, panel, last ? result(row + kPanel, block_.first_panel) : result(row, panel + 1), work);
      }
    };
    split_rows(0, buffer(0));
    for (std::int64_t row = 0, at = 0; row < block_.rows; row += kPanel, at = 1 - at) {
      const std::int64_t next = row + kPanel;
      if (side_by_side_ && next < block_.rows) {
        LineMaxima maxima;
        SplitWork work = split_work(next, buffer(1 - at), turns_ * panels, maxima);
        with_all_panels(row, buffer(at), work);
        work.finish();
        keep(maxima, next);
      } else {
        NoWork none;
        with_all_panels(row, buffer(at), none);
        if (next < block_.rows) split_rows(next, buffer(1 - at));
      }
    }
  }

  /// The rows from row0 that are near together. While a panel of the right operand is multiplied with all of them, the
  /// next one is fetched, with the last one the rows that `next` starts with: read only when they are needed, they
  /// would come from a third level cache that is far away.
  void multiply_with_near_rows(std::int64_t row0, const BlockChunk& next, std::int64_t next_row) const {
    const std::int64_t end = std::min(block_.rows, row0 + plan_.row_panels * kPanel);
    const std::int64_t turns = turns_ * ceil_div(end - row0, kPanel);
    for (std::int64_t row = row0; row < end; row += kPanel) split_rows(row, buffer((row - row0) / kPanel));
    for (std::int64_t panel = block_.first_panel; panel < block_.end_panel; ++panel) {
      FetchWork work = panel + 1 < block_.end_panel ? FetchWork(right(panel + 1), panel_bytes(depth_), 0, 1, turns)
                                                    : next.fetch_rows(next_row, turns);
      for (std::int64_t row = row0; row < end; row += kPanel) {
        const bool last = row + kPanel >= end;
        multiply(row, buffer((row - row0) / kPanel), panel,
                 last ? result(row0, panel + 1) : result(row + kPanel, panel), work);
      }
    }
  }

 private:
  char* buffer(std::int64_t index) const { return scratch_.rows + index * panel_bytes(depth_); }
  std::int64_t rows_from(std::int64_t row) const { return std::clamp<std::int64_t>(block_.rows - row, 0, kPanel); }
  const float* left(std::int64_t row) const {
    // Without depth there may be no data.
    const View<const float, 2>& a = block_.a;
    return depth_ == 0 ? a.data : a.data + (block_.row0 + row) * a.stride(0) + k0_ * a.stride(1);
  }
  float* result(std::int64_t row, std::int64_t panel) const {
    return block_.c.data + (block_.row0 + row) * block_.c.stride(0) + panel * kPanel * block_.c.stride(1);
  }
  const char* right(std::int64_t panel) const { return block_.b.panel(panel) + k0_ / kSliceDepth * kSliceBytes; }

  void keep(const LineMaxima& maxima, std::int64_t row) const {
    for (std::int64_t i = 0; i < rows_from(row); ++i) {
      std::uint32_t& most = scratch_.magnitudes[row + i];
      most = std::max(most, maxima.of(i));
    }
  }
  SplitWork split_work(std::int64_t row, char* to, std::int64_t turns, LineMaxima& maxima) const {
    return SplitWork({left(row), block_.a.stride(0), rows_from(row), depth_, to}, turns, maxima);
  }
  /// Splits 32 rows from `row`.
  void split_rows(std::int64_t row, char* to) const {
    LineMaxima maxima;
    if (side_by_side_) {
      split_work(row, to, 1, maxima).finish();
    } else {
      split_panel<Side::left>(block_.a, block_.row0 + row, rows_from(row), k0_, depth_, 1.0F, to, &maxima);
    }
    keep(maxima, row);
  }
  /// Fetches the rows of a block of row_panels, from `row`.
  FetchWork fetch_rows(std::int64_t row, std::int64_t turns) const {
    const std::int64_t rows = std::clamp<std::int64_t>(block_.rows - row, 0, plan_.row_panels * kPanel);
    constexpr std::int64_t kSize = sizeof(float);
    if (rows == 0) return FetchWork(nullptr, 0, 0, 0, 1);
    if (side_by_side_) return FetchWork(left(row), depth_ * kSize, block_.a.stride(0) * kSize, rows, turns);
    if (block_.a.stride(0) != 1) return FetchWork(nullptr, 0, 0, 0, 1);
    return FetchWork(left(row), rows * kSize, block_.a.stride(1) * kSize, depth_, turns);
  }

  /// 32 rows, from `row`, which are split, times a panel.
  template <class Work>
  HWY_INLINE void multiply(std::int64_t row, const char* split, std::int64_t panel, const float* fetch_c,
                           Work& work) const {
    multiply_split_rows(block_, {row, split}, panel, k0_, depth_, fetch_c, work);
  }

  const BlockArgs& block_;
  const BlockScratch& scratch_;
  BlockPlan plan_;
  std::int64_t k0_, depth_, turns_;
  bool side_by_side_;
};

/// Tile registers must be configured.
inline void multiply_block(const BlockArgs& block, const BlockScratch& scratch) {
  std::fill_n(scratch.magnitudes, block.rows, 0U);
  const BlockPlan plan(block.rows, block.end_panel - block.first_panel, block.b.depth);
  // All chunks of some rows after one another, so that the result is still near when it is added to.
  const std::int64_t together = plan.right_near ? block.rows : plan.row_panels * kPanel;
  for (std::int64_t row = 0; row < block.rows; row += together) {
    for (std::int64_t k0 = 0; k0 == 0 || k0 < block.b.depth; k0 += kDepthChunk) {
      const BlockChunk chunk(block, k0, scratch);
      if (plan.right_near) {
        chunk.multiply_with_near_right();
      } else {
        const bool last = k0 + kDepthChunk >= block.b.depth;
        const BlockChunk next(block, last ? 0 : k0 + kDepthChunk, scratch);
        chunk.multiply_with_near_rows(row, next, last ? row + together : row);
      }
    }
  }
  for (std::int64_t i = 0; i < block.rows; ++i) scratch.tame[i] = is_tame(scratch.magnitudes[i]) ? 1 : 0;
  multiply_wild_exactly(block, scratch.tame, scratch.exact);
}

/// How a product is cut into tasks: groups of panels times blocks of rows. Not a matter of bits: no sum is cut.
struct ProductCut {
  std::int64_t block_rows, row_blocks, panels, group_panels, groups;

  /// `items`: products of this shape whose tasks are handed out together.
  ProductCut(std::int64_t rows, std::int64_t columns, std::int64_t depth, int threads, std::int64_t items = 1)
      : panels(ceil_div(columns, kPanel)) {
    constexpr std::int64_t kOne = 1, kMostRows = 2048;
    const std::int64_t row_panels = std::max(kOne, ceil_div(rows, kPanel));
    const std::int64_t together = BlockPlan(rows, panels, depth).row_panels;
    const std::int64_t most_blocks = ceil_div(row_panels, together);
    // Blocks of rows cost nothing, so that there are many for the workers to finish together. Where rows are few,
    // groups of panels too, but only as many as must be: each splits the same rows.
    const std::int64_t blocks = threads == 1 ? kOne : 16 * threads, tasks = threads == 1 ? kOne : 4 * threads;
    row_blocks = std::clamp(std::max(blocks, ceil_div(rows, kMostRows)), kOne, most_blocks);
    groups = std::clamp(ceil_div(tasks, row_blocks * std::max(kOne, items)), kOne, std::max(kOne, panels));
    group_panels = std::max(kOne, ceil_div(panels, groups));
    groups = ceil_div(panels, group_panels);
    // Whole sets of rows that are near together.
    block_rows = ceil_div(most_blocks, row_blocks) * together * kPanel;
    row_blocks = ceil_div(rows, block_rows);
  }
  std::int64_t tasks() const { return row_blocks * groups; }
  void place(std::int64_t task, BlockArgs& block) const {
    block.row0 = task % row_blocks * block_rows;
    block.rows = std::min(block_rows, block.c.size(0) - block.row0);
    block.first_panel = task / row_blocks * group_panels;
    block.end_panel = std::min(panels, block.first_panel + group_panels);
  }
};

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
