// SPDX-License-Identifier: Apache-2.0
// What is added to scores after the product: score_mod (as in FlexAttention, Dong et al. 2024) and additive masks.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_CHANGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_CHANGES_INL_H_
#undef ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_CHANGES_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_ATTENTION_SCORE_CHANGES_INL_H_
#endif
#include "kernels/shared/attention/masks-inl.h"
#include "kernels/shared/vector/exp2-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Applies score_mod and bias to the scores of a word of keys, leaves them as powers of two, and takes the keys
/// that are now blocked out of `bits`. Scores come in natural units where there is a score_mod, else as
/// powers of two already, so that a bias of 0 changes no bit.
template <class T>
void change_scores(const HeadMask<T>& mask, std::int64_t query, std::int64_t rows, std::int64_t key, T* scores,
                   std::uint64_t* bits) {
  const Tag<T> d;
  const AttentionArgs<T>& args = *mask.args;
  const std::int64_t keys = std::min(kWordKeys<T>, mask.num_keys - key);
  const bool natural = args.score_mod.function != nullptr;
  if (natural) {
    args.score_mod.function(args.score_mod.state, scores, kWeightStride, mask.batch, mask.head, query, rows, key, keys);
  }
  const auto log2_e = hn::Set(d, kLog2E<T>), lowest = hn::Set(d, std::numeric_limits<T>::lowest());
  const auto blocked = hn::Set(d, -kInfinity<T>);
  HWY_ALIGN T copy[kWordKeys<T>] = {};
  for (std::int64_t i = 0; i < rows; ++i, scores += kWeightStride) {
    if (const View<const T, 4>& bias = args.bias; bias.data) {
      const std::int64_t stride = bias.stride(3);
      const T* row = bias.data + mask.batch * bias.stride(0) + mask.head * bias.stride(1) +
                     (query + i) * bias.stride(2) + key * stride;
      for (std::int64_t j = 0; j < keys; ++j) copy[j] = row[j * stride];
    }
    for (int j = 0; j < kWordVectors; ++j) {
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

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
