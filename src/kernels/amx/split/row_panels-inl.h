// SPDX-License-Identifier: Apache-2.0
// Rows split as panels of either operand, in pieces that are done while the multiply unit is busy.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_SPLIT_ROW_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_SPLIT_ROW_PANELS_INL_H_
#undef ENNEAD_KERNELS_AMX_SPLIT_ROW_PANELS_INL_H_
#else
#define ENNEAD_KERNELS_AMX_SPLIT_ROW_PANELS_INL_H_
#endif
#include "kernels/amx/split/panels-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

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
    for (std::int64_t k = 0; k < depth_; k += kSliceDepth) {
      const std::int64_t left = row < count_ ? depth_ - k : 0;
      const Floats low = load_first(at + k, left), high = load_first(at + k + kSide, left - kSide);
      most = hn::Max(most, hn::Max(magnitudes(low), magnitudes(high)));
      sum = hn::MulAdd(low, low, hn::MulAdd(high, high, sum));
      store_pairs(split(low, high), to_ + k / kSliceDepth * kSliceBytes + row_offset(row));
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
        slices_(depth_slices(depth)),
        factor_(factor),
        to_(to) {
    std::memset(most_, 0, sizeof(most_));
    std::memset(facts_.norms, 0, sizeof(facts_.norms));
  }

  std::int64_t pieces() const { return halves() * slices_ * kPieces; }
  /// A slice of 16 rows is transposed, then split pair by pair.
  void piece(std::int64_t index) {
    const std::int64_t part = index % kPieces, slice = index / kPieces % slices_,
                       half = index / kPieces / slices_ * kSide;
    if (part == 0) {
      square_.load_along(from_ + half * row_stride_ + slice * kSliceDepth, row_stride_,
                         std::min<std::int64_t>(kSide, count_ - half),
                         std::min(kSliceDepth, depth_ - slice * kSliceDepth));
      square_.transpose();
      return;
    }
    const Tag<float> d;
    const BitsTag bits;
    const Floats scale = hn::Set(d, factor_);
    const Floats low = hn::Mul(square_.low[part - 1], scale), high = hn::Mul(square_.high[part - 1], scale);
    float* const norms = facts_.norms + half;
    hn::Store(hn::Max(hn::Load(bits, most_ + half), hn::Max(magnitudes(low), magnitudes(high))), bits, most_ + half);
    hn::Store(hn::MulAdd(low, low, hn::MulAdd(high, high, hn::Load(d, norms))), d, norms);
    store_pairs(split(low, high), to_ + slice * kSliceBytes + row_offset(half) + (part - 1) * 64);
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
  std::int64_t row_stride_, count_, depth_, slices_;
  float factor_;
  char* to_;
  alignas(64) std::uint32_t most_[kPanel];
  HalfSlice square_;
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

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
