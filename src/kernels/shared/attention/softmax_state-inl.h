// SPDX-License-Identifier: Apache-2.0
// The online softmax of scores without a bound (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018), as FlashAttention folds it into sums of values (Dao et al. 2022; Dao 2023): the state of a row and what
// changes it.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_ATTENTION_SOFTMAX_STATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_ATTENTION_SOFTMAX_STATE_INL_H_
#undef ENNEAD_KERNELS_SHARED_ATTENTION_SOFTMAX_STATE_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_ATTENTION_SOFTMAX_STATE_INL_H_
#endif
#include "kernels/shared/attention/masks-inl.h"
#include "kernels/shared/attention/score_exp2-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// A reference follows the row maximum only once it is this far behind (in powers of two): fewer
/// rescalings, and weights stay below 2^9.
constexpr int kReferenceSlack = 8;

/// Folds the scores of a word of keys into the row maxima, a vector per row. A NaN may get lost: its row is NaN by its
/// weight, whatever the reference.
template <class T>
void update_maxima(std::int64_t rows, int vectors, const T* scores, const std::uint64_t* bits, T* maxima) {
  const Tag<T> d;
  for (std::int64_t i = 0; i < rows; ++i) {
    auto largest = hn::Load(d, maxima + i * kLanes<T>);
    for (int j = 0; j < vectors; ++j) {
      const auto score = hn::Load(d, scores + i * kWeightStride + j * kLanes<T>);
      largest = hn::Max(largest, hn::IfThenElse(mask_of_bits<T>(bits[i], j), score, hn::Set(d, -kInfinity<T>)));
    }
    hn::Store(largest, d, maxima + i * kLanes<T>);
  }
}

/// The softmax of the keys that a row has seen so far, not yet divided: its weights are 2^(score - reference). States
/// of different keys add up once their references are the same.
template <class T>
struct SoftmaxState {
  T* output;     ///< sum of weights times values
  T* sum;        ///< sum of weights, lane by lane
  T* reference;  ///< an even integer; -inf: no score seen yet
};

/// Raises the reference of a row when its maximum has left it behind, and rescales the sums.
/// References are even integers, so this loses no bit.
template <class T>
void raise_reference(T row_max, std::int64_t value_stride, const SoftmaxState<T>& state) {
  const Tag<T> d;
  const T old = *state.reference;
  if (!(row_max > -kInfinity<T>) || !(row_max > old + kReferenceSlack || old == -kInfinity<T>)) return;
  const T raised = T(2) * std::nearbyint(row_max / 2);
  *state.reference = raised;
  if (old == -kInfinity<T>) return;
  const auto factor = hn::Set(d, std::exp2(old - raised));
  hn::Store(hn::Mul(hn::Load(d, state.sum), factor), d, state.sum);
  for (std::int64_t j = 0; j < value_stride; j += kLanes<T>) {
    hn::Store(hn::Mul(hn::Load(d, state.output + j), factor), d, state.output + j);
  }
}

/// Makes weights of the scores of a word of keys, in place, and sums them.
template <class T>
void weights_of_scores(std::int64_t rows, int vectors, T* scores, const std::uint64_t* bits, const T* references,
                       T* sums) {
  const Tag<T> d;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto reference = hn::Set(d, references[i] == -kInfinity<T> ? T(0) : references[i]);
    auto sum = hn::Load(d, sums + i * kLanes<T>);
    for (int j = 0; j < vectors; ++j) {
      T* at = scores + i * kWeightStride + j * kLanes<T>;
      const auto weight = hn::IfThenElseZero(mask_of_bits<T>(bits[i], j), exp2_relative<T>(hn::Load(d, at), reference));
      hn::Store(weight, d, at);
      sum = hn::Add(sum, weight);
    }
    hn::Store(sum, d, sums + i * kLanes<T>);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
