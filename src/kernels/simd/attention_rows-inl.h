// SPDX-License-Identifier: Apache-2.0
// The parts of attention that go row by row: scores that change after the product, the online
// softmax of scores without a bound, and values that may not be multiplied by a masked weight.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_ROWS_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_ROWS_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_ROWS_INL_H_
#endif
#include "kernels/simd/attention_masks-inl.h"
#include "kernels/simd/attention_tiles-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// A reference follows the row maximum only once it is this far behind (in powers of two): fewer
/// rescalings, and weights stay below 2^9.
constexpr int kReferenceSlack = 8;

/// Applies score_mod and bias to a panel of scores, leaves them as powers of two, and takes the keys
/// that are now blocked out of `bits`. Scores come in natural units where there is a score_mod, else as
/// powers of two already, so that a bias of 0 changes no bit.
template <class T>
void change_scores(const HeadMask<T>& mask, std::int64_t query, std::int64_t rows, std::int64_t key, T* scores,
                   std::uint64_t* bits) {
  const Tag<T> d;
  const AttentionArgs<T>& args = *mask.args;
  const std::int64_t keys = std::min(kPanelKeys<T>, mask.num_keys - key);
  const bool natural = args.score_mod.function != nullptr;
  if (natural) {
    args.score_mod.function(args.score_mod.state, scores, kWeightStride, mask.batch, mask.head, query, rows, key, keys);
  }
  const auto log2_e = hn::Set(d, kLog2E<T>), lowest = hn::Set(d, std::numeric_limits<T>::lowest());
  const auto blocked = hn::Set(d, -kInfinity<T>);
  HWY_ALIGN T copy[kPanelKeys<T>] = {};
  for (std::int64_t i = 0; i < rows; ++i, scores += kWeightStride) {
    if (const View<const T, 4>& bias = args.bias; bias.data) {
      const std::int64_t stride = bias.stride(3);
      const T* row = bias.data + mask.batch * bias.stride(0) + mask.head * bias.stride(1) +
                     (query + i) * bias.stride(2) + key * stride;
      for (std::int64_t j = 0; j < keys; ++j) copy[j] = row[j * stride];
    }
    for (int j = 0; j < kScoreVectors; ++j) {
      const auto bias = hn::Load(d, copy + j * kLanes<T>);
      const auto score = hn::Load(d, scores + j * kLanes<T>);
      // Not by "not equal", which is false for NaN on some instruction sets: a NaN blocks nothing, it is seen.
      const auto seen = hn::Not(hn::Or(hn::Eq(bias, blocked), hn::Eq(score, blocked)));
      const auto changed = natural ? hn::Mul(hn::Add(score, bias), log2_e) : hn::MulAdd(bias, log2_e, score);
      // lowest() times log2(e) would be -inf, which means blocked: a mask of finite numbers is none. NaN stays.
      hn::Store(hn::IfThenElse(hn::Lt(changed, lowest), lowest, changed), d, scores + j * kLanes<T>);
      std::uint8_t bytes[8] = {};
      hn::StoreMaskBits(d, seen, bytes);
      std::uint64_t word;
      std::memcpy(&word, bytes, sizeof(word));
      bits[i] &= ~(low_bits(kLanes<T>) << (j * kLanes<T>)) | word << (j * kLanes<T>);
    }
  }
}

/// Folds a panel of scores into the row maxima, a vector per row. A NaN may get lost: its row is NaN by its weight,
/// whatever the reference.
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

/// The running state of a row of the online softmax.
template <class T>
struct SoftmaxRow {
  T* out;        ///< sum of weights times values so far
  T* sum;        ///< sum of weights so far, lane by lane
  T* reference;  ///< weights are 2^(score - reference); -inf: no score seen yet
};

/// Raises the reference of a row when its maximum has left it behind, and rescales the sums.
/// References are even integers, so this loses no bit.
template <class T>
void raise_reference(T row_max, std::int64_t value_stride, const SoftmaxRow<T>& row) {
  const Tag<T> d;
  const T old = *row.reference;
  if (!(row_max > -kInfinity<T>) || !(row_max > old + kReferenceSlack || old == -kInfinity<T>)) return;
  const T raised = T(2) * std::nearbyint(row_max / 2);
  *row.reference = raised;
  if (old == -kInfinity<T>) return;
  const auto factor = hn::Set(d, std::exp2(old - raised));
  hn::Store(hn::Mul(hn::Load(d, row.sum), factor), d, row.sum);
  for (std::int64_t j = 0; j < value_stride; j += kLanes<T>) {
    hn::Store(hn::Mul(hn::Load(d, row.out + j), factor), d, row.out + j);
  }
}

/// Turns a panel of scores into weights, in place, and sums them.
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

/// out += sum of the values a row sees, for values that may be infinite or NaN: a masked one is
/// skipped, not multiplied by 0. The order of the sum is that of sum_values_tile.
/// `bits` holds a word for each panel, `bits_stride` apart.
template <class T>
void sum_seen_values_row(std::int64_t num_panels, const std::uint64_t* bits, std::int64_t bits_stride, const T* weights,
                         const T* values, std::int64_t value_stride, T* out) {
  const Tag<T> d;
  for (std::int64_t j = 0; j < value_stride; j += kLanes<T>) {
    auto sum = hn::Zero(d);
    for (std::int64_t panel = 0; panel < num_panels; ++panel) {
      for (std::uint64_t word = bits[panel * bits_stride]; word != 0; word &= word - 1) {
        const std::int64_t key = panel * kPanelKeys<T> + std::countr_zero(word);
        sum = hn::MulAdd(hn::Set(d, weights[key]), hn::Load(d, values + key * value_stride + j), sum);
      }
    }
    hn::Store(hn::Add(hn::Load(d, out + j), sum), d, out + j);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
