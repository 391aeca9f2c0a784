// SPDX-License-Identifier: Apache-2.0
// Making weights of the scores of one panel of keys, while the multiply unit makes the scores of the next.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_WEIGHTS_WORK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_WEIGHTS_WORK_INL_H_
#undef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_WEIGHTS_WORK_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_WEIGHTS_WORK_INL_H_
#endif
#include "kernels/amx/split/planes-inl.h"
#include "kernels/shared/attention/geometry-inl.h"
#include "kernels/shared/attention/score_exp2-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Panels of keys in a word of mask bits.
constexpr std::int64_t kPanelsPerWord = kWordKeys<float> / kPanel;
static_assert(kWordKeys<float> % kPanel == 0);

/// Makes weights of the scores of a strip of queries with a panel of 32 keys, row by row, and splits them.
class WeightsWork {
 public:
  WeightsWork() = default;
  /// bits: a word per row, of which `shift` and up are these keys; nullptr: no key is masked.
  WeightsWork(const float* scores, char* weights, float* sums, const std::uint64_t* bits, int shift, std::int64_t turns)
      : scores_(scores),
        weights_(weights),
        sums_(sums),
        bits_(bits),
        shift_(shift),
        each_turn_(static_cast<int>(ceil_div(kPanel, std::max<std::int64_t>(1, turns)))),
        left_(kPanel) {}

  HWY_INLINE void turn() {
    if (left_ == 0) return;
    const std::int64_t rows = std::min<std::int64_t>(each_turn_, left_);
    for (std::int64_t i = 0; i < rows; ++i) make_row();
  }
  void finish() {
    while (left_ > 0) make_row();
  }

 private:
  HWY_INLINE void make_row() {
    const Tag<float> d;
    Floats low = exp2_bounded<float>(hn::Load(d, scores_)), high = exp2_bounded<float>(hn::Load(d, scores_ + kSide));
    const std::int64_t row = kPanel - left_;
    if (bits_) {
      low = hn::IfThenElseZero(mask_of_bits<float>(bits_[row] >> shift_, 0), low);
      high = hn::IfThenElseZero(mask_of_bits<float>(bits_[row] >> shift_, 1), high);
    }
    float* const sum = sums_ + row * kSide;
    hn::Store(hn::Add(hn::Add(hn::Load(d, sum), low), high), d, sum);
    store_pairs(split_down(low, high), weights_ + row_offset(row));
    scores_ += kWeightStride;
    --left_;
  }

  const float* scores_ = nullptr;
  char* weights_ = nullptr;
  float* sums_ = nullptr;
  const std::uint64_t* bits_ = nullptr;
  int shift_ = 0, each_turn_ = 0;
  std::int64_t left_ = 0;
};

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
