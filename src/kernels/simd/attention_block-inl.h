// SPDX-License-Identifier: Apache-2.0
// A block of queries of one head: what attention of it takes and gives. attention_block.cpp computes it.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_BLOCK_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_BLOCK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_BLOCK_INL_H_
#endif
#include "kernels/simd/attention_masks-inl.h"
#include "kernels/simd/attention_pack-inl.h"
#include "kernels/simd/attention_rows-inl.h"
#include "kernels/simd/feed-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Queries of a block: a multiple of the tile's rows.
constexpr int kBlockQueries = 192;
template <class T>
constexpr int kStepPanels = kStepKeys / kPanelKeys<T>;

/// Memory of one worker for the block it is at.
template <class T>
struct BlockScratch {
  T* queries;           ///< [kBlockQueries][head_dim]: those that are not used in place
  T* query_norms;       ///< [kBlockQueries] |q|^2
  T* out;               ///< [kBlockQueries][value_stride]
  T* sums;              ///< [kBlockQueries] vectors
  T* references;        ///< [kBlockQueries]
  T* weights;           ///< [kTileRows][kWeightStride]: the tile's scores, then weights, of a step
  T* step_sums;         ///< [kTileRows] vectors
  T* maxima;            ///< [kTileRows] vectors
  T* partial;           ///< [kTileRows][value_stride]
  std::uint64_t* bits;  ///< [kStepPanels][kTileRows]

  static BlockScratch take(std::byte*& memory, std::int64_t head_dim, std::int64_t value_dim) {
    const std::int64_t value_stride = padded_row<T>(value_dim);
    BlockScratch scratch;
    scratch.queries = take_scratch<T>(memory, kBlockQueries * head_dim);
    scratch.query_norms = take_scratch<T>(memory, kBlockQueries);
    scratch.out = take_scratch<T>(memory, kBlockQueries * value_stride);
    scratch.sums = take_scratch<T>(memory, kBlockQueries * kLanes<T>);
    scratch.references = take_scratch<T>(memory, kBlockQueries);
    scratch.weights = take_scratch<T>(memory, kTileRows * kWeightStride);
    scratch.step_sums = take_scratch<T>(memory, kTileRows * kLanes<T>);
    scratch.maxima = take_scratch<T>(memory, kTileRows * kLanes<T>);
    scratch.partial = take_scratch<T>(memory, kTileRows * value_stride);
    scratch.bits = take_scratch<std::uint64_t>(memory, kStepPanels<T> * kTileRows);
    return scratch;
  }
};

/// Rows of the next register tile when `rows` are left.
constexpr int next_rows(std::int64_t rows) {
  return rows >= kScoreRows ? kScoreRows : rows >= kSmallRows ? kSmallRows : 1;
}

/// Vectors of a panel that hold the first `keys` > 0 keys.
template <class T>
int vectors_of(std::int64_t keys) {
  return static_cast<int>(std::min<std::int64_t>(kScoreVectors, ceil_div(keys, kLanes<T>)));
}

/// Where a block's results go.
template <class T>
struct BlockOutput {
  T* out;
  std::int64_t row_stride, column_stride, value_dim;
  T* lse;  ///< or nullptr
  std::int64_t lse_stride;
  /// Whole lines are written past the caches, for results that are read much later. Needs side by side elements and
  /// rows that start with a line.
  bool streams = false;
};

/// log(total * 2^reference), the same whatever power of two moved between the two.
template <class T>
double log_sum(T total, T reference) {
  constexpr double kLn2 = 0.6931471805599453;
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(total), &exponent);
  return (static_cast<double>(reference) + exponent + std::log2(mantissa)) * kLn2;
}

/// One row's sum of weighted values, divided by the total of its weights and written.
template <class T>
void finish_row(T total, const T* weighted, T reference, const BlockOutput<T>& to, std::int64_t row) {
  const Tag<T> d;
  const bool empty = total == T(0);  // no key was seen
  const T factor = empty ? T(0) : T(1) / total;
  T* out = to.out + row * to.row_stride;
  std::int64_t j = 0;
  for (; to.streams && j + kLanes<T> <= to.value_dim; j += kLanes<T>) {
    hn::Stream(hn::Mul(hn::Load(d, weighted + j), hn::Set(d, factor)), d, out + j);
  }
  for (; to.column_stride == 1 && j + kLanes<T> <= to.value_dim; j += kLanes<T>) {
    hn::StoreU(hn::Mul(hn::Load(d, weighted + j), hn::Set(d, factor)), d, out + j);
  }
  for (; j < to.value_dim; ++j) out[j * to.column_stride] = weighted[j] * factor;
  if (to.lse) to.lse[row * to.lse_stride] = empty ? -kInfinity<T> : static_cast<T>(log_sum(total, reference));
}

/// Attention of `rows` <= kBlockQueries queries from `query`, which lie in `queries`; their norms are in
/// scratch.query_norms. Meanwhile `feed` is fetched.
template <class T>
void attend_block(const HeadMask<T>& mask, const PackedHead<T>& head, std::int64_t query, std::int64_t rows,
                  const T* queries, std::int64_t query_stride, const BlockScratch<T>& scratch, const BlockOutput<T>& to,
                  Feed<T>& feed);

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
