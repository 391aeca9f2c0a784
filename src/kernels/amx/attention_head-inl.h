// SPDX-License-Identifier: Apache-2.0
// Keys, values and queries of a head as the multiply unit takes them.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_
#undef ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ATTENTION_HEAD_INL_H_
#endif
#include "kernels/amx/split-inl.h"
#include "kernels/simd/attention_block-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

constexpr std::int64_t panels_of(std::int64_t count) { return ceil_div(count, kPanel); }

/// Keys and values of one head, split. A key is wild when the multiply unit would not get it or its value right: then
/// its value is zero here, and rows that see it are computed in another way.
struct SplitHead {
  std::int64_t head_dim, value_dim;
  std::int64_t steps;           ///< of kStepKeys keys
  char* keys;                   ///< panels of 32 keys, a right operand of depth head_dim
  char* values;                 ///< panels of 32 value columns, a right operand whose depth is all keys
  float* key_norms;             ///< per step: the largest |k|^2 of keys that are not wild
  std::uint32_t* least_values;  ///< per step: the smallest magnitude of a value that is not 0
  char* tame;                   ///< per key
  char* all_tame;               ///< per step: whether all of its keys are

  static SplitHead take(std::byte*& memory, std::int64_t num_keys, std::int64_t head_dim, std::int64_t value_dim) {
    SplitHead head;
    head.head_dim = head_dim;
    head.value_dim = value_dim;
    head.steps = ceil_div(num_keys, kStepKeys);
    const std::int64_t keys = head.steps * kStepKeys;
    head.keys = take_scratch<char>(memory, panels_of(keys) * panel_bytes(head_dim));
    head.values = take_scratch<char>(memory, panels_of(value_dim) * panel_bytes(keys));
    head.key_norms = take_scratch<float>(memory, head.steps);
    head.least_values = take_scratch<std::uint32_t>(memory, head.steps);
    head.tame = take_scratch<char>(memory, keys);
    head.all_tame = take_scratch<char>(memory, head.steps);
    return head;
  }

  /// Facts of a step of keys start with its first panel.
  void start_step(std::int64_t key) const {
    if (key % kStepKeys != 0) return;
    key_norms[key / kStepKeys] = 0;
    least_values[key / kStepKeys] = kNoMagnitude;
    all_tame[key / kStepKeys] = 1;
  }
  /// Notes `count` <= 32 keys that are not wild.
  void add_tame_keys(std::int64_t key, std::int64_t count, const float* norms, std::uint32_t least_value) const {
    start_step(key);
    std::uint32_t& least = least_values[key / kStepKeys];
    least = std::min(least, least_value);
    std::fill_n(tame + key, count, 1);
    float& norm = key_norms[key / kStepKeys];
    norm = std::max(norm, *std::max_element(norms, norms + count));
  }

  const char* key_panel(std::int64_t key) const { return keys + key / kPanel * panel_bytes(head_dim); }
  /// The step of depth that starts with `key`, in a panel of value columns.
  char* value_step(std::int64_t panel, std::int64_t key) const {
    return values + panel * panel_bytes(steps * kStepKeys) + key / kStepDepth * kStepBytes;
  }
};

/// What is known of 32 rows: whether the multiply unit gets them right, and |row|^2.
struct RowFacts {
  char tame[kPanel];
  alignas(64) float norms[kPanel];
};

/// The sum of the lanes of each of 16 vectors.
HWY_INLINE Floats sum_of_lanes(const float (*vectors)[kSide]) {
  const Tag<float> d;
  Floats sums[kSide];
  for (int i = 0; i < kSide; ++i) sums[i] = hn::Load(d, vectors[i]);
  transpose_square<float>(sums);
  for (int left = kSide / 2; left > 0; left /= 2) {
    for (int i = 0; i < left; ++i) sums[i] = hn::Add(sums[i], sums[i + left]);
  }
  return sums[0];
}

/// `count` <= 32 rows of `depth` elements side by side, as a panel of the left operand, in pieces that can be done
/// while the multiply unit is busy.
class LeftRows {
 public:
  LeftRows(const float* from, std::int64_t row_stride, std::int64_t count, std::int64_t depth, char* to)
      : from_(from), row_stride_(row_stride), count_(count), depth_(depth), to_(to) {}

  std::int64_t pieces() const { return count_ > kSide ? kPanel : kSide; }
  /// A row.
  void piece(std::int64_t row) {
    const Tag<float> d;
    const float* const at = from_ + row * row_stride_;
    Bits most = hn::Zero(BitsTag());
    Floats sum = hn::Zero(d);
    for (std::int64_t k = 0; k < depth_; k += kStepDepth) {
      const std::int64_t left = row < count_ ? depth_ - k : 0;
      const Floats low = load_first(at + k, left), high = load_first(at + k + kSide, left - kSide);
      most = hn::Max(most, hn::Max(magnitudes(low), magnitudes(high)));
      sum = hn::MulAdd(low, low, hn::MulAdd(high, high, sum));
      store_pairs(split(low, high), to_ + k / kStepDepth * kStepBytes + row_offset(row));
    }
    hn::Store(sum, d, squares_[row]);
    facts_.tame[row] = is_tame(most) ? 1 : 0;
  }
  /// After all pieces.
  const RowFacts& finish() {
    for (std::int64_t half = 0; half < pieces(); half += kSide) {
      hn::Store(sum_of_lanes(squares_ + half), Tag<float>(), facts_.norms + half);
    }
    return facts_;
  }

 private:
  const float* from_;
  std::int64_t row_stride_, count_, depth_;
  char* to_;
  alignas(64) float squares_[kPanel][kSide];
  RowFacts facts_;
};

/// The same as columns of a panel of the right operand, times factor.
class RightRows {
 public:
  RightRows(const float* from, std::int64_t row_stride, std::int64_t count, std::int64_t depth, float factor, char* to)
      : from_(from),
        row_stride_(row_stride),
        count_(count),
        depth_(depth),
        steps_(depth_steps(depth)),
        factor_(factor),
        to_(to) {
    std::memset(most_, 0, sizeof(most_));
    std::memset(facts_.norms, 0, sizeof(facts_.norms));
  }

  std::int64_t pieces() const { return halves() * steps_ * kPieces; }
  /// A step of depth of 16 rows is turned, then split pair by pair.
  void piece(std::int64_t index) {
    const std::int64_t part = index % kPieces, step = index / kPieces % steps_, half = index / kPieces / steps_ * kSide;
    if (part == 0) {
      square_.load_along(from_ + half * row_stride_ + step * kStepDepth, row_stride_,
                         std::min<std::int64_t>(kSide, count_ - half),
                         std::min(kStepDepth, depth_ - step * kStepDepth));
      square_.turn();
      return;
    }
    const Tag<float> d;
    const BitsTag bits;
    const Floats scale = hn::Set(d, factor_);
    const Floats low = hn::Mul(square_.low[part - 1], scale), high = hn::Mul(square_.high[part - 1], scale);
    float* const norms = facts_.norms + half;
    hn::Store(hn::Max(hn::Load(bits, most_ + half), hn::Max(magnitudes(low), magnitudes(high))), bits, most_ + half);
    hn::Store(hn::MulAdd(low, low, hn::MulAdd(high, high, hn::Load(d, norms))), d, norms);
    store_pairs(split(low, high), to_ + step * kStepBytes + row_offset(half) + (part - 1) * 64);
  }
  /// After all pieces.
  const RowFacts& finish() {
    for (std::int64_t i = 0; i < halves() * kSide; ++i) facts_.tame[i] = is_tame(most_[i]) ? 1 : 0;
    return facts_;
  }

 private:
  static constexpr std::int64_t kPieces = 1 + kSide;
  std::int64_t halves() const { return count_ > kSide ? 2 : 1; }

  const float* from_;
  std::int64_t row_stride_, count_, depth_, steps_;
  float factor_;
  char* to_;
  alignas(64) std::uint32_t most_[kPanel];
  HalfStep square_;
  RowFacts facts_;
};

template <class Rows>
RowFacts split_at_once(Rows rows) {
  for (std::int64_t piece = 0; piece < rows.pieces(); ++piece) rows.piece(piece);
  return rows.finish();
}

/// Rows [row0, row0 + count) with their elements side by side: where they lie, or copied to `buffer`.
inline View<const float, 2> rows_side_by_side(const View<const float, 2>& rows, std::int64_t row0, std::int64_t count,
                                              float* buffer) {
  const std::int64_t depth = rows.size(1);
  const View<const float, 2> some{rows.data + row0 * rows.stride(0), {count, depth}, rows.strides};
  if (rows.stride(1) == 1) return some;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < depth; ++j) buffer[i * depth + j] = some(i, j);
  }
  return {buffer, {count, depth}, {depth, 1}};
}

/// Splits keys [key, key + 32) of a head, as far as there are any, and their values. k: [keys, head_dim],
/// v: [keys, value_dim]; both start with key `origin`. Keys come times `factor`. The panels of a step come in order.
/// buffer: [32][the larger of head_dim and value_dim].
inline void split_keys(const View<const float, 2>& k, float factor, const View<const float, 2>& v, std::int64_t origin,
                       std::int64_t key, float* buffer, const SplitHead& head) {
  const std::int64_t at = key - origin, count = std::clamp<std::int64_t>(k.size(0) - at, 0, kPanel);
  head.start_step(key);
  float& norm = head.key_norms[key / kStepKeys];
  std::uint32_t& least_value = head.least_values[key / kStepKeys];
  const View<const float, 2> keys = rows_side_by_side(k, at, count, buffer);
  const RowFacts facts = split_at_once(RightRows(keys.data, keys.stride(0), count, head.head_dim, factor,
                                                 head.keys + key / kPanel * panel_bytes(head.head_dim)));
  LineMaxima value_maxima;
  find_maxima(v, at, count, value_maxima);
  least_value = std::min(least_value, value_maxima.least());
  bool all = true;
  for (std::int64_t i = 0; i < count; ++i) {
    const bool tame = facts.tame[i] && value_maxima.is_tame_line(i);
    head.tame[key + i] = tame ? 1 : 0;
    all = all && tame;
    if (tame) norm = std::max(norm, facts.norms[i]);
  }

  if (!all) head.all_tame[key / kStepKeys] = 0;
  View<const float, 2> values{v.data + at * v.stride(0), {count, v.size(1)}, v.strides};
  if (!all) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < head.value_dim; ++j) {
        buffer[i * head.value_dim + j] = head.tame[key + i] ? values(i, j) : 0.0F;
      }
    }
    values = {buffer, {count, head.value_dim}, {head.value_dim, 1}};
  }
  const View<const float, 2> columns{values.data, {head.value_dim, count}, {values.stride(1), values.stride(0)}};
  for (std::int64_t panel = 0; panel < panels_of(head.value_dim); ++panel) {
    const std::int64_t width = std::min(kPanel, head.value_dim - panel * kPanel);
    split_step<Side::right>(columns, panel * kPanel, width, 0, 1.0F, head.value_step(panel, key));
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
