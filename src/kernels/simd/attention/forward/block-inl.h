// SPDX-License-Identifier: Apache-2.0
// A block of queries of one head: what attention of it takes and gives. attention_block.cpp computes it.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_BLOCK_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_BLOCK_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_BLOCK_INL_H_
#endif
#include "kernels/shared/attention/output-inl.h"
#include "kernels/simd/attention/forward/fetch-inl.h"
#include "kernels/simd/attention/forward/pack-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

template <class T>
constexpr int kStepPanels = kStepKeys / kPanelKeys<T>;

/// Memory of one worker for the block it is at.
template <class T>
struct AttentionScratch {
  T* queries;           ///< [kBlockQueries][head_dim]: those that are not used in place
  T* query_norms;       ///< [kBlockQueries] |q|^2
  T* out;               ///< [kBlockQueries][value_stride]
  T* sums;              ///< [kBlockQueries] vectors
  T* references;        ///< [kBlockQueries]
  T* weights;           ///< [kStripRows][kWeightStride]: the strip's scores, then weights, of a step
  T* step_sums;         ///< [kStripRows] vectors
  T* maxima;            ///< [kStripRows] vectors
  T* partial;           ///< [kStripRows][value_stride]
  std::uint64_t* bits;  ///< [kStepPanels][kStripRows]

  static AttentionScratch take(std::byte*& memory, std::int64_t head_dim, std::int64_t value_dim) {
    const std::int64_t value_stride = padded_row<T>(value_dim);
    AttentionScratch scratch;
    scratch.queries = take_scratch<T>(memory, kBlockQueries * head_dim);
    scratch.query_norms = take_scratch<T>(memory, kBlockQueries);
    scratch.out = take_scratch<T>(memory, kBlockQueries * value_stride);
    scratch.sums = take_scratch<T>(memory, kBlockQueries * kLanes<T>);
    scratch.references = take_scratch<T>(memory, kBlockQueries);
    scratch.weights = take_scratch<T>(memory, kStripRows * kWeightStride);
    scratch.step_sums = take_scratch<T>(memory, kStripRows * kLanes<T>);
    scratch.maxima = take_scratch<T>(memory, kStripRows * kLanes<T>);
    scratch.partial = take_scratch<T>(memory, kStripRows * value_stride);
    scratch.bits = take_scratch<std::uint64_t>(memory, kStepPanels<T> * kStripRows);
    return scratch;
  }
};

/// Rows of the next tile when `rows` are left.
constexpr int next_tile_rows(std::int64_t rows) {
  return rows >= kScoreRows ? kScoreRows : rows >= kSmallRows ? kSmallRows : 1;
}

/// Attention of `rows` <= kBlockQueries queries from `query`, which lie in `queries`; their norms are in
/// scratch.query_norms. Meanwhile `fetches` is fetched.
template <class T>
void attend_block(const HeadMask<T>& mask, const PackedHead<T>& head, std::int64_t query, std::int64_t rows,
                  const T* queries, std::int64_t query_stride, const AttentionScratch<T>& scratch,
                  const BlockOutput<T>& to, FetchQueue<T>& fetches);

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
