// SPDX-License-Identifier: Apache-2.0
// A block of queries of one head: what attention of it takes and gives. attention_block.cpp computes it.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_BLOCK_INL_H_
#undef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_BLOCK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_BLOCK_INL_H_
#endif
#include "kernels/amx/attention/forward/split_head-inl.h"
#include "kernels/shared/attention/output-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Keys whose values are summed at a time, half a step: their weights must stay in the first level cache until the
/// values are summed, beside what streams past. Of 64, 96, 128, 192 and 256 keys in a loop of such tiles the first
/// three came to 0.80-0.85 of the peak, the others to 0.57-0.63.
constexpr std::int64_t kSumKeys = 128;
static_assert(kStepKeys % kSumKeys == 0 && kSumKeys % kWordKeys<float> == 0 && kSumKeys <= kWeightStride);
static_assert(kBlockQueries % kPanel == 0);  // a strip of queries is a panel of the left operand

/// Memory of one worker for the block it is at.
struct AttentionScratch {
  char* queries;        ///< panels of 32 queries, a left operand of depth head_dim
  float* query_norms;   ///< [kBlockQueries] |q|^2
  char* tame;           ///< [kBlockQueries]
  char* sees_wild;      ///< [kBlockQueries]
  float* out;           ///< [kBlockQueries][out_stride()]
  float* sums;          ///< [kBlockQueries] vectors
  float* references;    ///< [kBlockQueries]
  float* scores;        ///< [32][kWeightStride]: of a strip with kSumKeys keys, then their weights
  char* weights;        ///< the weights split: a left operand of depth kSumKeys
  float* key_sums;      ///< [32] vectors
  float* maxima;        ///< [32] vectors
  float* buffer;        ///< 32 rows of queries, keys or values that cannot be read where they lie
  float* partial;       ///< [32][32] sums of values over kSumKeys keys
  std::uint64_t* bits;  ///< [kSumKeys / kWordKeys][32]

  static std::int64_t out_stride(std::int64_t value_dim) { return panels_of(value_dim) * kPanel; }

  static AttentionScratch take(std::byte*& memory, std::int64_t head_dim, std::int64_t value_dim) {
    AttentionScratch scratch;
    scratch.queries = take_scratch<char>(memory, panels_of(kBlockQueries) * panel_bytes(head_dim));
    scratch.query_norms = take_scratch<float>(memory, kBlockQueries);
    scratch.tame = take_scratch<char>(memory, kBlockQueries);
    scratch.sees_wild = take_scratch<char>(memory, kBlockQueries);
    scratch.out = take_scratch<float>(memory, kBlockQueries * out_stride(value_dim));
    scratch.sums = take_scratch<float>(memory, kBlockQueries * kSide);
    scratch.references = take_scratch<float>(memory, kBlockQueries);
    scratch.scores = take_scratch<float>(memory, kPanel * kWeightStride);
    scratch.weights = take_scratch<char>(memory, panel_bytes(kSumKeys));
    scratch.key_sums = take_scratch<float>(memory, kPanel * kSide);
    scratch.maxima = take_scratch<float>(memory, kPanel * kSide);
    scratch.buffer = take_scratch<float>(memory, kPanel * std::max(head_dim, value_dim));
    scratch.partial = take_scratch<float>(memory, kPanel * kPanel);
    scratch.bits = take_scratch<std::uint64_t>(memory, kSumKeys / kWordKeys<float> * kPanel);
    return scratch;
  }
};

/// Splits the queries of a block, [rows, head_dim], and takes their norms.
void split_queries(const View<const float, 2>& queries, const AttentionScratch& scratch);

/// Attention of `rows` <= kBlockQueries queries from `query`, whose split_queries() are in scratch. Rows that are wild
/// or see a wild key are not written; returns whether there are any.
bool attend_block(const HeadMask<float>& mask, const SplitHead& head, std::int64_t query, std::int64_t rows,
                  const AttentionScratch& scratch, const BlockOutput<float>& to);

/// Whether attend_block() has written this row.
inline bool is_computed(const AttentionScratch& scratch, std::int64_t row) {
  return scratch.tame[row] && !scratch.sees_wild[row];
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
