// SPDX-License-Identifier: Apache-2.0
// The register tiles of each instruction set.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_GEMM_TILE_SHAPES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_GEMM_TILE_SHAPES_INL_H_
#undef ENNEAD_KERNELS_SIMD_GEMM_TILE_SHAPES_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_GEMM_TILE_SHAPES_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// A tile is `rows` rows of `vectors` vectors, all in registers while k runs. What chose each shape
/// stands in docs/kernels/figures.md.
struct RegisterTile {
  int rows, vectors;
};

// kWideTile takes the columns that do not divide into tiles, one vector more at a time: a tile of a
// single vector would load as often as it multiplies. Targets without the registers for it repeat kGemmTile.
#if HWY_TARGET == HWY_AVX3
constexpr RegisterTile kGemmTile = {8, 3}, kWideTile = {6, 4};
#elif HWY_TARGET == HWY_AVX2
constexpr RegisterTile kGemmTile = {6, 2}, kWideTile = kGemmTile;
#elif HWY_TARGET == HWY_SSE4
constexpr RegisterTile kGemmTile = {6, 2}, kWideTile = kGemmTile;
#elif HWY_TARGET == HWY_NEON
constexpr RegisterTile kGemmTile = {8, 3}, kWideTile = {6, 4};
#else
constexpr RegisterTile kGemmTile = {4, 2}, kWideTile = kGemmTile;
#endif

/// Rows of the tiles that are `vectors` wide.
constexpr int tile_rows(std::int64_t vectors) { return vectors > kGemmTile.vectors ? kWideTile.rows : kGemmTile.rows; }

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
