// SPDX-License-Identifier: Apache-2.0
// A matrix product out of panels of split operands, and the rows that must not be split.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_GEMM_INL_H_
#undef ENNEAD_KERNELS_AMX_GEMM_INL_H_
#else
#define ENNEAD_KERNELS_AMX_GEMM_INL_H_
#endif
#include "kernels/amx/split-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Depth is cut into chunks so that a few panels stay in the second level cache; a later chunk goes on from the stored
/// sums, which changes no bits. A multiple of kStepDepth.
constexpr std::int64_t kDepthChunk = 1024;
/// Bytes of a group of panels of the right operand, which stays in the second level cache while rows stream past it.
constexpr std::int64_t kGroupBytes = 7 << 17;

/// Panels of a group.
constexpr std::int64_t panels_per_group(std::int64_t depth) {
  return kGroupBytes / std::max(kStepBytes, panel_bytes(std::min(depth, kDepthChunk)));
}

/// A right operand, packed: panels over the whole depth, then whether the multiply unit gets all of it right.
struct PackedRight {
  const char* data;
  std::int64_t depth, columns;

  static constexpr std::int64_t panels_bytes(std::int64_t depth, std::int64_t columns) {
    return ceil_div(columns, kPanel) * panel_bytes(depth);
  }
  static constexpr std::int64_t bytes(std::int64_t depth, std::int64_t columns) {
    return panels_bytes(depth, columns) + static_cast<std::int64_t>(kAlignment);
  }
  std::int64_t panels() const { return ceil_div(columns, kPanel); }
  const char* panel(std::int64_t index) const { return data + index * panel_bytes(depth); }
  bool tame() const { return data[panels_bytes(depth, columns)] != 0; }
};

/// Packs panel `index` of a right operand, given as [columns, depth], times factor; false: not all of it is tame.
inline bool pack_right_panel(const View<const float, 2>& lines, std::int64_t index, float factor, char* packed) {
  const std::int64_t columns = std::min(kPanel, lines.size(0) - index * kPanel), depth = lines.size(1);
  split_panel<Side::right>(lines, index * kPanel, columns, 0, depth, factor, packed + index * panel_bytes(depth));
  LineMaxima maxima;
  find_maxima(lines, index * kPanel, columns, maxima);
  bool tame = true;
  for (std::int64_t line = 0; line < columns; ++line) {
    tame = tame && is_tame(std::bit_cast<std::uint32_t>(std::bit_cast<float>(maxima.of(line)) * std::abs(factor)));
  }
  return tame;
}

inline void pack_right(const View<const float, 2>& lines, float factor, char* packed) {
  const std::int64_t panels = ceil_div(lines.size(0), kPanel);
  bool tame = true;
  for (std::int64_t panel = 0; panel < panels; ++panel) tame = pack_right_panel(lines, panel, factor, packed) && tame;
  packed[PackedRight::panels_bytes(lines.size(1), lines.size(0))] = tame ? 1 : 0;
}

/// Where a result lies, from the first element of a tile.
struct Target {
  float* c;
  std::int64_t row_stride, column_stride;
};

/// A tile of at most 32 x 32 of c = start + left * right, or c + left * right.
struct TileArgs {
  std::int64_t steps;  ///< of depth
  const char *left, *right;
  const float* start;  ///< a value per column; nullptr: zeros
  bool add;            ///< go on from c
  const char* tame;    ///< per row: 0 leaves it as it is in c; nullptr: all are written
  std::int64_t rows, columns;
  Target to;
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
  multiply_panels<kRows, kColumns>(tile.steps, tile.left, tile.right, work);
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

/// A tile that misses rows or columns, leaves some out, or whose columns do not lie side by side, goes through a
/// buffer.
inline void multiply_partial_tile(TileArgs tile) {
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
  NoWork none;
  multiply_shape(tile, Target{buffer, kPanel, 1}, none);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    if (tile.tame && !tile.tame[i]) continue;
    for (std::int64_t j = 0; j < tile.columns; ++j) {
      tile.to.c[i * tile.to.row_stride + j * tile.to.column_stride] = buffer[i * kPanel + j];
    }
  }
}

template <class Work>
HWY_INLINE void multiply_tile(const TileArgs& tile, Work& work) {
  const bool whole = tile.rows % kSide == 0 && tile.columns % kSide == 0 && tile.to.column_stride == 1 && !tile.tame;
  if (whole) {
    multiply_shape(tile, tile.to, work);
  } else {
    multiply_partial_tile(tile);
  }
}

/// Rows [row0, row0 + rows) of c = start + a * b, or c + a * b, and panels [first_panel, end_panel) of its columns: at
/// most a group.
struct BlockArgs {
  View<const float, 2> a;  ///< the whole left operand
  std::int64_t row0, rows;
  PackedRight b;
  std::int64_t first_panel, end_panel;
  const float* start;
  bool add;
  View<float, 2> c;  ///< the whole result
};

/// What a worker needs for a block.
struct BlockScratch {
  char* rows[2];  ///< panels of split rows, a chunk of depth: the one that is multiplied and the next
  char* tame;     ///< per row: whether the multiply unit gets it right
  float* exact;   ///< sums of a row, in whole panels

  static BlockScratch take(std::byte*& memory, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    BlockScratch scratch;
    for (char*& panel : scratch.rows) panel = take_scratch<char>(memory, panel_bytes(std::min(depth, kDepthChunk)));
    scratch.tame = take_scratch<char>(memory, rows);
    scratch.exact = take_scratch<float>(memory, std::min(panels_per_group(depth), ceil_div(columns, kPanel)) * kPanel);
    return scratch;
  }
};

/// sums += row * panels [first_panel, end_panel) of b, by plain multiply-adds: for what the multiply unit would not
/// get right. Slow, but as right as any other.
inline void multiply_row_exactly(const float* row, std::int64_t stride, const PackedRight& b, std::int64_t first_panel,
                                 std::int64_t end_panel, float* sums) {
  const Tag<float> d;
  for (std::int64_t tile = 2 * first_panel; tile < 2 * end_panel; ++tile, sums += kSide) {
    const char* at = b.panel(tile / 2) + tile % 2 * kTileBytes;
    Floats sum = hn::Load(d, sums);
    for (std::int64_t k0 = 0; k0 < b.depth; k0 += kStepDepth, at += kStepBytes) {
      for (std::int64_t j = 0; j < std::min<std::int64_t>(kSide, b.depth - k0); ++j) {
        Floats low, high;
        join(load_pairs(at + j * 64), low, high);
        sum = hn::MulAdd(hn::Set(d, row[(k0 + j) * stride]), low, sum);
        if (k0 + j + kSide < b.depth) sum = hn::MulAdd(hn::Set(d, row[(k0 + j + kSide) * stride]), high, sum);
      }
    }
    hn::Store(sum, d, sums);
  }
}

/// Columns of a block.
inline std::int64_t block_columns(const BlockArgs& block) {
  return std::min(block.end_panel * kPanel, block.b.columns) - block.first_panel * kPanel;
}

inline void multiply_block_row_exactly(const BlockArgs& block, std::int64_t row, float* sums) {
  const std::int64_t column0 = block.first_panel * kPanel, columns = block_columns(block);
  const float* const a = block.a.data + row * block.a.stride(0);
  float* const c = block.c.data + row * block.c.stride(0) + column0 * block.c.stride(1);
  for (std::int64_t j = 0; j < (block.end_panel - block.first_panel) * kPanel; ++j) {
    sums[j] = j >= columns  ? 0.0F
              : block.add   ? c[j * block.c.stride(1)]
              : block.start ? block.start[column0 + j]
                            : 0.0F;
  }
  multiply_row_exactly(a, block.a.stride(1), block.b, block.first_panel, block.end_panel, sums);
  for (std::int64_t j = 0; j < columns; ++j) c[j * block.c.stride(1)] = sums[j];
}

/// Rows [row, row + 32) of a block times its panels, a chunk of depth. mixed: some rows are not tame.
template <class Work>
void multiply_row_panel(const BlockArgs& block, std::int64_t row, std::int64_t k0, std::int64_t depth, const char* left,
                        const char* tame, Work& work) {
  TileArgs tile;
  tile.steps = depth_steps(depth);
  tile.left = left;
  tile.add = block.add || k0 > 0;
  tile.tame = tame;
  tile.rows = std::min(kPanel, block.rows - row);
  for (std::int64_t panel = block.first_panel; panel < block.end_panel; ++panel) {
    const std::int64_t column = panel * kPanel;
    tile.right = block.b.panel(panel) + k0 / kStepDepth * kStepBytes;
    tile.start = block.start ? block.start + column : nullptr;
    tile.columns = std::min(kPanel, block.b.columns - column);
    tile.to = {block.c.data + (block.row0 + row) * block.c.stride(0) + column * block.c.stride(1), block.c.stride(0),
               block.c.stride(1)};
    multiply_tile(tile, work);
  }
}

/// Fetches memory that comes next into the second level cache, a few lines a turn.
class FetchWork {
 public:
  FetchWork(const void* data, std::int64_t bytes, std::int64_t turns)
      : at_(static_cast<const char*>(data)),
        end_(at_ + bytes),
        lines_(static_cast<int>(ceil_div(bytes / 64, std::max<std::int64_t>(1, turns)))) {}
  HWY_INLINE void turn() {
    for (int i = 0; i < lines_ && at_ < end_; ++i, at_ += 64) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const char *at_, *end_;
  int lines_;
};

/// Which of `count` rows are tame; true: all.
inline bool mark_tame(const LineMaxima& maxima, std::int64_t count, bool right_tame, char* tame) {
  bool all = true;
  for (std::int64_t i = 0; i < count; ++i) {
    tame[i] = right_tame && is_tame(maxima.of(i)) ? 1 : 0;
    all = all && tame[i] != 0;
  }
  return all;
}

/// All rows of a block over a chunk of depth: while a panel of rows is multiplied, the next one is split. known: which
/// rows are tame has been found out before.
inline void multiply_chunk(const BlockArgs& block, std::int64_t k0, std::int64_t depth, bool known,
                           const BlockScratch& scratch) {
  const View<const float, 2>& a = block.a;
  const bool side_by_side = a.stride(1) == 1 || a.size(1) <= 1;
  const std::int64_t turns = kProducts * depth_steps(depth) * (block.end_panel - block.first_panel);
  LineMaxima maxima[2];
  const auto split_work = [&](std::int64_t row, int to) {
    const float* const from = depth == 0 ? a.data : a.data + (block.row0 + row) * a.stride(0) + k0 * a.stride(1);
    maxima[to] = LineMaxima();
    return SplitWork(
        {from, a.stride(0), std::clamp<std::int64_t>(block.rows - row, 0, kPanel), depth, scratch.rows[to]}, turns,
        maxima[to]);
  };
  const auto split_now = [&](std::int64_t row, int to) {
    if (side_by_side) {
      split_work(row, to).finish();
    } else {
      split_panel<Side::left>(a, block.row0 + row, std::min(kPanel, block.rows - row), k0, depth, 1.0F,
                              scratch.rows[to]);
    }
  };
  split_now(0, 0);
  for (std::int64_t row = 0, at = 0; row < block.rows; row += kPanel, at = 1 - at) {
    const std::int64_t next = row + kPanel, rows = std::min(kPanel, block.rows - row);
    if (!known) mark_tame(maxima[at], rows, block.b.tame(), scratch.tame + row);
    const bool all = std::all_of(scratch.tame + row, scratch.tame + row + rows, [](char tame) { return tame != 0; });
    const char* const tame = all ? nullptr : scratch.tame + row;
    if (side_by_side && next < block.rows) {
      SplitWork work = split_work(next, static_cast<int>(1 - at));
      multiply_row_panel(block, row, k0, depth, scratch.rows[at], tame, work);
      work.finish();
    } else {
      NoWork none;
      multiply_row_panel(block, row, k0, depth, scratch.rows[at], tame, none);
      if (next < block.rows) split_now(next, static_cast<int>(1 - at));
    }
  }
}

/// Tile registers must be configured. Which way a row goes depends on it and on b alone.
inline void multiply_block(const BlockArgs& block, const BlockScratch& scratch) {
  // A row is tame as a whole, so that must be known before its first chunk is multiplied.
  const bool known = block.b.depth > kDepthChunk || block.a.stride(1) != 1;
  for (std::int64_t row = 0; known && row < block.rows; row += kPanel) {
    const std::int64_t rows = std::min(kPanel, block.rows - row);
    LineMaxima maxima;
    find_maxima(block.a, block.row0 + row, rows, maxima);
    mark_tame(maxima, rows, block.b.tame(), scratch.tame + row);
  }
  for (std::int64_t k0 = 0; k0 == 0 || k0 < block.b.depth; k0 += kDepthChunk) {
    multiply_chunk(block, k0, std::min(kDepthChunk, block.b.depth - k0), known, scratch);
  }
  for (std::int64_t row = 0; row < block.rows; ++row) {
    if (!scratch.tame[row]) multiply_block_row_exactly(block, block.row0 + row, scratch.exact);
  }
}

/// How a product is cut into tasks: groups of panels times blocks of rows. Not a matter of bits: no sum is cut.
struct ProductCut {
  std::int64_t block_rows, row_blocks, panels, group_panels, groups;

  ProductCut(std::int64_t rows, std::int64_t columns, std::int64_t depth, int threads)
      : panels(ceil_div(columns, kPanel)) {
    constexpr std::int64_t kOne = 1, kTasksPerThread = 4, kMostRows = 2048;
    groups = std::max(kOne, ceil_div(panels, panels_per_group(depth)));
    // Few rows: more groups, since what a group shares is its rows; else blocks of rows.
    const std::int64_t wanted = threads == 1 ? kOne : kTasksPerThread * threads;
    const std::int64_t row_panels = std::max(kOne, ceil_div(rows, kPanel));
    row_blocks = std::clamp(std::max(ceil_div(wanted, groups), ceil_div(rows, kMostRows)), kOne, row_panels);
    groups = std::clamp(ceil_div(wanted, row_blocks), groups, std::max(groups, panels));
    group_panels = std::max(kOne, ceil_div(panels, groups));
    groups = ceil_div(panels, group_panels);
    block_rows = ceil_div(row_panels, row_blocks) * kPanel;
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
