// SPDX-License-Identifier: Apache-2.0
// A block of a product, and what the multiply unit would get wrong of it: that is computed by plain multiply-adds.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_GEMM_EXACT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_GEMM_EXACT_INL_H_
#undef ENNEAD_KERNELS_AMX_GEMM_EXACT_INL_H_
#else
#define ENNEAD_KERNELS_AMX_GEMM_EXACT_INL_H_
#endif
#include "kernels/amx/split/packed_right-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Rows [row0, row0 + rows) of c = start + a * b, and panels [first_panel, end_panel) of its columns.
struct BlockArgs {
  View<const float, 2> a;  ///< the whole left operand
  std::int64_t row0, rows;
  PackedRight b;
  std::int64_t first_panel, end_panel;
  const float* start;
  View<float, 2> c;  ///< the whole result
};

/// Rows that are multiplied exactly together.
constexpr int kExactRows = 8;

/// sums[i] += rows[i] * panels [first_panel, end_panel) of b, by plain multiply-adds: for what the multiply unit would
/// not get right. Slower, since b has to be put together, but as right as any other. stride: between elements of a row.
template <int kRows>
void multiply_rows_exactly(const float* const (&rows)[kRows], std::int64_t stride, const PackedRight& b,
                           std::int64_t first_panel, std::int64_t end_panel, float* const (&sums)[kRows]) {
  const Tag<float> d;
  for (std::int64_t tile = 2 * first_panel; tile < 2 * end_panel; ++tile) {
    const char* at = b.panel(tile / 2) + tile % 2 * kRegisterBytes;
    const std::int64_t column = (tile - 2 * first_panel) * kSide;
    Floats sum[kRows];
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) sum[i] = hn::Load(d, sums[i] + column);
    for (std::int64_t k0 = 0; k0 < b.depth; k0 += kSliceDepth, at += kSliceBytes) {
      for (std::int64_t k = k0; k < std::min(k0 + kSide, b.depth); ++k) {
        Floats low, high;
        join(load_pairs(at + (k - k0) * 64), low, high);
        ENNEAD_UNROLL
        for (int i = 0; i < kRows; ++i) sum[i] = hn::MulAdd(hn::Set(d, rows[i][k * stride]), low, sum[i]);
        if (k + kSide >= b.depth) continue;
        ENNEAD_UNROLL
        for (int i = 0; i < kRows; ++i) sum[i] = hn::MulAdd(hn::Set(d, rows[i][(k + kSide) * stride]), high, sum[i]);
      }
    }
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) hn::Store(sum[i], d, sums[i] + column);
  }
}

/// Columns of panels [first_panel, end_panel) of some rows of a block by plain multiply-adds: those whose byte in
/// `skipped` is 0; nullptr: all. sums: whole panels for each row.
template <int kRows>
void multiply_rows_of_block_exactly(const BlockArgs& block, const std::int64_t* rows, std::int64_t first_panel,
                                    std::int64_t end_panel, const char* skipped, float* sums) {
  const std::int64_t column0 = first_panel * kPanel, width = (end_panel - first_panel) * kPanel;
  const std::int64_t columns = std::min(end_panel * kPanel, block.b.columns) - column0;
  const float* a[kRows];
  float* to[kRows];
  const auto result = [&](std::int64_t row) {
    return block.c.data + (block.row0 + row) * block.c.stride(0) + column0 * block.c.stride(1);
  };
  for (int i = 0; i < kRows; ++i) {
    a[i] = block.a.data + (block.row0 + rows[i]) * block.a.stride(0);
    to[i] = sums + i * width;
    for (std::int64_t j = 0; j < width; ++j) {
      to[i][j] = block.start && j < columns ? block.start[column0 + j] : 0.0F;
    }
  }
  multiply_rows_exactly<kRows>(a, block.a.stride(1), block.b, first_panel, end_panel, to);
  for (int i = 0; i < kRows; ++i) {
    float* const c = result(rows[i]);
    for (std::int64_t j = 0; j < columns; ++j) {
      if (!skipped || !skipped[j]) c[j * block.c.stride(1)] = to[i][j];
    }
  }
}

/// The rows of a block whose byte in tame_rows is `tame`, several at a time.
inline void multiply_some_rows_exactly(const BlockArgs& block, const char* tame_rows, bool tame,
                                       std::int64_t first_panel, std::int64_t end_panel, const char* skipped,
                                       float* sums) {
  std::int64_t rows[kExactRows];
  int count = 0;
  for (std::int64_t row = 0; row < block.rows; ++row) {
    if ((tame_rows[row] != 0) != tame) continue;
    rows[count++] = row;
    if (count < kExactRows) continue;
    multiply_rows_of_block_exactly<kExactRows>(block, rows, first_panel, end_panel, skipped, sums);
    count = 0;
  }
  for (int i = 0; i < count; ++i) {
    multiply_rows_of_block_exactly<1>(block, rows + i, first_panel, end_panel, skipped, sums);
  }
}

/// What the multiply unit gets wrong of a block: rows that are not tame, and columns of other rows that are not. So
/// which way an element goes depends on its row and column alone. sums: kExactRows rows of whole panels.
inline void multiply_wild_exactly(const BlockArgs& block, const char* tame_rows, float* sums) {
  multiply_some_rows_exactly(block, tame_rows, false, block.first_panel, block.end_panel, nullptr, sums);
  for (std::int64_t panel = block.first_panel; panel < block.end_panel && !block.b.tame(); ++panel) {
    if (block.b.all_tame(panel)) continue;
    multiply_some_rows_exactly(block, tame_rows, true, panel, panel + 1, block.b.tame_columns(panel), sums);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
