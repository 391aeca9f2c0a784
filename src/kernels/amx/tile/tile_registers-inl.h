// SPDX-License-Identifier: Apache-2.0
// The tile registers of AMX: eight of 16 rows of 64 bytes, and a multiply unit that adds the products of two tiles of
// bfloat16 to one of float32. Highway has no vectors for them, so they are named here, in assembly: tile registers
// mean nothing to the compiler, so nothing is taken from it.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_TILE_TILE_REGISTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_TILE_TILE_REGISTERS_INL_H_
#undef ENNEAD_KERNELS_AMX_TILE_TILE_REGISTERS_INL_H_
#else
#define ENNEAD_KERNELS_AMX_TILE_TILE_REGISTERS_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Rows of a tile register, and 32-bit elements in one of them.
constexpr int kSide = 16;
/// Depth of a slice, that of one product of tile registers: a 32-bit element of an operand is a pair of bfloat16.
constexpr std::int64_t kSliceDepth = 32;
constexpr std::int64_t kRegisterBytes = 1024;
static_assert(kSide == kLanes<float>);
/// A float32 is the sum of this many bfloat16, of 8 bits each.
constexpr int kPlanes = 3;
/// Rows of a left operand, or columns of a right one, that are multiplied together: two tiles of them.
constexpr std::int64_t kPanel = 2 * kSide;
/// An operand, split: per panel and slice of depth [plane][half of the panel][kSide rows of 64 bytes].
constexpr std::int64_t kSliceBytes = kPlanes * 2 * kRegisterBytes;
constexpr std::int64_t kPlaneBytes = 2 * kRegisterBytes;

/// Gives the tile registers the shape that all kernels use; what they held is lost.
inline void configure_tiles() {
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = kSide;
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
}

/// The configured tile registers, as long as this lives; no state is left behind. Code of the caller that runs
/// meanwhile (a score_mod) may leave them in any shape, or in none: configure_tiles() again after it.
class TileRegisters {
 public:
  TileRegisters() { configure_tiles(); }
  ~TileRegisters() { asm volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

template <int kTile>
HWY_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}

/// Rows `stride` bytes apart.
template <int kTile>
HWY_INLINE void tile_load(const void* from, std::int64_t stride = 64) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(from), "r"(stride) : "memory");
}

template <int kTile>
HWY_INLINE void tile_store(void* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(kTile), "r"(to), "r"(stride) : "memory");
}

/// kSum[i][j] += sum over pairs p of kLeft[i][p] . kRight[p][j].
template <int kSum, int kLeft, int kRight>
HWY_INLINE void tile_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kLeft), "i"(kRight));
}

// Sums are in registers 0 to 3: row half i and column half j in 2 i + j. Halves of the left operand go through
// 4 and 5, of the right one through 6 and 7.

template <int kRows, int kColumns>
HWY_INLINE void zero_sums() {
  tile_zero<0>();
  if constexpr (kColumns == 2) tile_zero<1>();
  if constexpr (kRows == 2) tile_zero<2>();
  if constexpr (kRows == 2 && kColumns == 2) tile_zero<3>();
}

/// Sums from float32 rows `stride` bytes apart; stride 0: all rows alike.
template <int kRows, int kColumns>
HWY_INLINE void load_sums(const float* from, std::int64_t stride) {
  const char* const low = reinterpret_cast<const char*>(from);
  tile_load<0>(low, stride);
  if constexpr (kColumns == 2) tile_load<1>(low + 64, stride);
  if constexpr (kRows == 2) tile_load<2>(low + kSide * stride, stride);
  if constexpr (kRows == 2 && kColumns == 2) tile_load<3>(low + kSide * stride + 64, stride);
}

template <int kRows, int kColumns>
HWY_INLINE void store_sums(float* to, std::int64_t stride) {
  char* const low = reinterpret_cast<char*>(to);
  tile_store<0>(low, stride);
  if constexpr (kColumns == 2) tile_store<1>(low + 64, stride);
  if constexpr (kRows == 2) tile_store<2>(low + kSide * stride, stride);
  if constexpr (kRows == 2 && kColumns == 2) tile_store<3>(low + kSide * stride + 64, stride);
}

template <int kRows>
HWY_INLINE void load_left(const char* plane) {
  tile_load<4>(plane);
  if constexpr (kRows == 2) tile_load<5>(plane + kRegisterBytes);
}

template <int kColumns>
HWY_INLINE void load_right(const char* plane) {
  tile_load<6>(plane);
  if constexpr (kColumns == 2) tile_load<7>(plane + kRegisterBytes);
}

template <int kRows, int kColumns>
HWY_INLINE void multiply_halves() {
  tile_product<0, 4, 6>();
  if constexpr (kColumns == 2) tile_product<1, 4, 7>();
  if constexpr (kRows == 2) tile_product<2, 5, 6>();
  if constexpr (kRows == 2 && kColumns == 2) tile_product<3, 5, 7>();
}

/// What the vector units do while tiles are multiplied: nothing.
struct NoWork {
  HWY_INLINE void turn() {}
};

/// Products of tiles in a slice of depth: six of the nine pairs of planes. Those left out are below 2^-26 of the
/// product of two float32 when both are rounded to their parts, 2^-23 when one is cut off: a last bit or less.
constexpr int kProducts = 6;

/// sums += left panel * right panel over `slices` slices of depth. kRows and kColumns: halves of the panels in use.
/// `work.turn()` is done kProducts times per slice, by units that would be idle.
template <int kRows, int kColumns, class Work>
HWY_INLINE void multiply_panels(std::int64_t slices, const char* left, const char* right, Work& work) {
  ENNEAD_NO_UNROLL
  for (std::int64_t slice = 0; slice < slices; ++slice, left += kSliceBytes, right += kSliceBytes) {
    load_left<kRows>(left);
    load_right<kColumns>(right);
    multiply_halves<kRows, kColumns>();
    work.turn();
    load_right<kColumns>(right + kPlaneBytes);
    multiply_halves<kRows, kColumns>();
    work.turn();
    load_right<kColumns>(right + 2 * kPlaneBytes);
    multiply_halves<kRows, kColumns>();
    work.turn();
    load_left<kRows>(left + kPlaneBytes);
    load_right<kColumns>(right + kPlaneBytes);
    multiply_halves<kRows, kColumns>();
    work.turn();
    load_right<kColumns>(right);
    multiply_halves<kRows, kColumns>();
    work.turn();
    load_left<kRows>(left + 2 * kPlaneBytes);
    multiply_halves<kRows, kColumns>();
    work.turn();
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
