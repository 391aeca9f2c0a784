// SPDX-License-Identifier: Apache-2.0
// The two products of attention, a tile at a time: scores (and at once their weights) of
// a few queries with a panel of keys, and the sum of values under those weights.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_REGISTER_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_REGISTER_TILES_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_REGISTER_TILES_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_REGISTER_TILES_INL_H_
#endif
#include "kernels/shared/attention/geometry-inl.h"
#include "kernels/shared/attention/score_exp2-inl.h"
#include "kernels/simd/gemm/register_tile-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

#if HWY_TARGET == HWY_WASM
constexpr int kScoreRows = 3;  // as measured: docs/kernels/figures.md
#else
// Of 32 registers 6 x 4 are for sums, 4 for keys, 1 for a query; of 16, 6 x 2, 2 and 1.
constexpr int kScoreRows = 6;
#endif
constexpr int kScoreVectors = kWordVectors, kValueVectors = kScoreVectors;
constexpr int kSmallRows = 2;  // rows left over are done two at a time, then the last
/// Queries of a strip: they meet a panel of keys one tile after the other, while it is in the nearest cache.
constexpr int kStripRows = 24;
static_assert(kBlockQueries % kStripRows == 0);

/// Keys of a packed panel: those of a word of mask bits.
template <class T>
constexpr std::int64_t kPanelKeys = kWordKeys<T>;

/// Keys whose values are summed at a time, so that they serve all rows of a strip from the nearest cache.
constexpr std::int64_t kValueKeys = 128;

/// What the score tiles of a step share.
template <class T>
struct ScoreTile {
  std::int64_t head_dim;
  const T* queries;  ///< rows of queries
  std::int64_t query_stride;
  const T* panel;  ///< [head_dim][kPanelKeys]
  Fetch<T> fetch;
  T* weights;                 ///< rows kWeightStride apart
  T* sums;                    ///< a vector per row: sums of weights, lane by lane
  const std::uint64_t* bits;  ///< a word per row: keys of the panel it may see
};

/// Scores as they are: weights[i][j] = q_i . k_j.
template <int kRows, int kVectors, class T>
HWY_NOINLINE void compute_scores(const ScoreTile<T>& tile) {
  const Tag<T> d;
  Vec<T> acc[kRows][kVectors];
  ENNEAD_UNROLL
  for (int i = 0; i < kRows; ++i) {
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Zero(d);
  }
  accumulate(tile.head_dim, PlainRows<T, kRows>(tile.queries, tile.query_stride), Panel<T, kPanelKeys<T>>{tile.panel},
             tile.fetch, acc);
  T* HWY_RESTRICT scores = tile.weights;
  ENNEAD_UNROLL
  for (int i = 0; i < kRows; ++i) {
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) hn::Store(acc[i][j], d, scores + i * kWeightStride + j * kLanes<T>);
  }
}

/// Weights of bounded scores while they are in registers: weights[i][j] = 2^(q_i . k_j), 0 where
/// masked, and their sums.
template <int kRows, int kVectors, bool kMasked, class T>
HWY_NOINLINE void compute_weights(const ScoreTile<T>& tile) {
  const Tag<T> d;
  Vec<T> acc[kRows][kVectors];
  ENNEAD_UNROLL
  for (int i = 0; i < kRows; ++i) {
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Zero(d);
  }
  accumulate(tile.head_dim, PlainRows<T, kRows>(tile.queries, tile.query_stride), Panel<T, kPanelKeys<T>>{tile.panel},
             tile.fetch, acc);
  T* HWY_RESTRICT weights = tile.weights;
  T* HWY_RESTRICT sums = tile.sums;
  ENNEAD_UNROLL
  for (int i = 0; i < kRows; ++i) {
    Vec<T> sum = hn::Load(d, sums + i * kLanes<T>);
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      Vec<T> weight = exp2_bounded<T>(acc[i][j]);
      if constexpr (kMasked) weight = hn::IfThenElseZero(mask_of_bits<T>(tile.bits[i], j), weight);
      hn::Store(weight, d, weights + i * kWeightStride + j * kLanes<T>);
      sum = hn::Add(sum, weight);
    }
    hn::Store(sum, d, sums + i * kLanes<T>);
  }
}

/// A run of keys of one step, for the value tiles.
template <class T>
struct ValueTile {
  std::int64_t num_keys;
  const T* weights;  ///< rows kWeightStride apart
  const T* values;   ///< rows value_stride apart
  std::int64_t value_stride;
  const T* start;  ///< sums to go on from, rows value_stride apart; nullptr: zero
  T* out;          ///< rows value_stride apart
  bool add;        ///< add to out (the step is complete), else overwrite it
  Fetch<T> fetch;
};

/// out[i][j] (+)= start[i][j] + sum_k weights[i][k] * values[k][j].
template <int kRows, int kVectors, class T>
HWY_NOINLINE void sum_values_tile(const ValueTile<T>& tile) {
  const Tag<T> d;
  const std::int64_t stride = tile.value_stride;
  Vec<T> acc[kRows][kVectors];
  if (tile.start) {
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      ENNEAD_UNROLL
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Load(d, tile.start + i * stride + j * kLanes<T>);
    }
  } else {
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      ENNEAD_UNROLL
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Zero(d);
    }
  }
  accumulate(tile.num_keys, PlainRows<T, kRows>(tile.weights, kWeightStride), StridedPanel<T>(tile.values, stride),
             tile.fetch, acc);
  T* HWY_RESTRICT out = tile.out;
  if (tile.add) {
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      ENNEAD_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        T* at = out + i * stride + j * kLanes<T>;
        hn::Store(hn::Add(hn::Load(d, at), acc[i][j]), d, at);
      }
    }
  } else {
    ENNEAD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      ENNEAD_UNROLL
      for (int j = 0; j < kVectors; ++j) hn::Store(acc[i][j], d, out + i * stride + j * kLanes<T>);
    }
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
