// SPDX-License-Identifier: Apache-2.0
// The product of a few rows with a panel of packed columns: every GEMM is made of this tile.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_REGISTER_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_REGISTER_TILE_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_REGISTER_TILE_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_REGISTER_TILE_INL_H_
#endif
#include "kernels/shared/fetch-inl.h"
#include "kernels/simd/gemm/tile_shapes-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// The left operand of a tile where it lies: depth, the axis that is summed over, side by side. Every
/// third row has a pointer and the others are one or two strides from it, which an address holds; from a
/// single pointer GCC makes an address for each row and k, more than there are registers.
template <class T, int kRows>
class PlainRows {
 public:
  HWY_INLINE PlainRows(const T* data, std::int64_t row_stride) : row_stride_(row_stride) {
    ENNEAD_UNROLL
    for (int i = 0; i < kThirds; ++i) {
      third_[i] = data + 3 * i * row_stride;
      asm("" : "+r"(third_[i]));  // so that it stays one
    }
  }
  HWY_INLINE T at(int row, int k) const { return (third_[row / 3] + row % 3 * row_stride_)[k]; }
  HWY_INLINE void advance(int k) {
    ENNEAD_UNROLL
    for (int i = 0; i < kThirds; ++i) third_[i] += k;
  }

 private:
  static constexpr int kThirds = (kRows + 2) / 3;
  const T* third_[kThirds];
  std::int64_t row_stride_;
};

/// The left operand of a tile as pack_rows() writes it: rows side by side.
template <class T, int kRows>
struct PackedRows {
  const T* data;

  HWY_INLINE T at(int row, int k) const { return data[k * kRows + row]; }
  HWY_INLINE void advance(int k) { data += k * kRows; }
};

/// The right operand of a tile: vectors side by side, rows kStride elements apart.
template <class T, std::int64_t kStride>
struct Panel {
  const T* data;

  HWY_INLINE const T* at(int k) const { return data + k * kStride; }
  HWY_INLINE void advance(int k) { data += k * kStride; }
};

/// The same with a stride that is known late: two rows have a pointer each, as in PlainRows.
template <class T>
class StridedPanel {
 public:
  HWY_INLINE StridedPanel(const T* data, std::int64_t stride) : rows_{data, data + stride}, stride_(stride) {
    asm("" : "+r"(rows_[0]), "+r"(rows_[1]));
  }
  HWY_INLINE const T* at(int k) const { return rows_[k]; }
  HWY_INLINE void advance(int k) {
    rows_[0] += k * stride_;
    rows_[1] += k * stride_;
  }

 private:
  const T* rows_[2];
  std::int64_t stride_;
};

/// sum += a * b, in the register that holds the sum: given the intrinsic, GCC 12 lets a sum of many wander
/// from register to register and copies some of them back in each iteration of the loop.
template <class T>
HWY_INLINE void add_product(Vec<T> a, Vec<T> b, Vec<T>& sum) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(T) == 4) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  } else {
    asm("vfmadd231pd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  }
#else
  sum = hn::MulAdd(a, b, sum);
#endif
}

/// Memory that will be needed soon, fetched into the nearest cache a little with every other k.
template <class T>
struct Fetch {
  const T* data;        ///< need not be readable: fetching does not fault
  std::int64_t stride;  ///< elements per two k
};

/// acc[i][j] += sum_k rows[i, k] * panel[k][j], k ascending.
/// The order of one element's sum does not depend on the tile's shape, so its bits do not either.
/// Two k per iteration: the hardware fetches one stride ahead of each load, and with one k that is too
/// late for a panel in the second level cache (3-7 points); four k lose as much again to the decoder.
template <int kRows, int kVectors, class T, class Rows, class Columns>
HWY_INLINE void accumulate(std::int64_t depth, Rows rows, Columns panel, Fetch<T> fetch,
                           Vec<T> (&acc)[kRows][kVectors]) {
  const Tag<T> d;
  if (depth % 2 != 0) {
    ENNEAD_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const Vec<T> b = hn::LoadU(d, panel.at(0) + j * kLanes<T>);
      ENNEAD_UNROLL
      for (int i = 0; i < kRows; ++i) add_product<T>(hn::Set(d, rows.at(i, 0)), b, acc[i][j]);
    }
    rows.advance(1);
    panel.advance(1);
  }
  ENNEAD_NO_UNROLL
  for (std::int64_t k = depth / 2; k > 0; --k) {
    fetch_line(fetch.data);
    ENNEAD_UNROLL
    for (int u = 0; u < 2; ++u) {
      Vec<T> b[kVectors];
      ENNEAD_UNROLL
      for (int j = 0; j < kVectors; ++j) b[j] = hn::LoadU(d, panel.at(u) + j * kLanes<T>);
      ENNEAD_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const Vec<T> a = hn::Set(d, rows.at(i, u));
        ENNEAD_UNROLL
        for (int j = 0; j < kVectors; ++j) add_product<T>(a, b[j], acc[i][j]);
      }
    }
    rows.advance(2);
    panel.advance(2);
    fetch.data += fetch.stride;
  }
}

/// One full tile: c = start + rows * panel, or c + rows * panel.
template <class T>
struct TileArgs {
  std::int64_t depth;
  const T* rows;
  std::int64_t row_stride;  ///< of the rows; not used when they are packed
  const T* panel;
  Fetch<T> fetch;
  const T* start;                 ///< a value per column; nullptr: go on from c
  T* columns[kWideTile.vectors];  ///< where each vector of columns starts in the first row of c
  std::int64_t c_stride;          ///< between rows of c
};

template <class T>
using TileFunction = void (*)(const TileArgs<T>& tile);

/// Which tile: the first `vectors` of the `panel_vectors` of a panel, at most tile_rows(vectors) rows.
struct TileShape {
  std::int64_t rows, vectors, panel_vectors;
  bool packed;
};

/// tile.cpp, where each tile is compiled once. There are tiles for whole panels and, of packed rows, for the halves
/// of one as wide as kWideTile.
template <class T>
TileFunction<T> tile_function(const TileShape& shape);

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
