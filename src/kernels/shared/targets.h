// SPDX-License-Identifier: Apache-2.0
// First include of a file that is compiled once per instruction set. Before it, the file names
// itself in HWY_TARGET_INCLUDE; what stands between HWY_BEFORE_NAMESPACE() and
// HWY_AFTER_NAMESPACE(), inside HWY_NAMESPACE, is then compiled for each. Nothing here chooses at
// run time: the table for an Isa is picked in dispatch.cpp, so there is no global state.
#ifndef ENNEAD_KERNELS_SHARED_TARGETS_H_
#define ENNEAD_KERNELS_SHARED_TARGETS_H_
// All standard headers must come before code is compiled for more than the baseline.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "kernels/kernels.h"
#include "kernels/scratch_pieces.h"
#include "kernels/tables.h"

// One target per Isa. SSE3-only CPUs run the plain loops; the others differ from these in nothing
// that the kernels use.
#ifndef ENNEAD_OTHER_DISABLED_TARGETS
#define ENNEAD_OTHER_DISABLED_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | ENNEAD_OTHER_DISABLED_TARGETS)
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_F16C
// Whatever -march says, build them all: supported_isas() promises them.
#define HWY_COMPILE_ALL_ATTAINABLE
// Highway compiles for its own scalar target too; the plain loops replace it.
#define ENNEAD_SIMD (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
// The kernels for AMX (src/kernels/amx) are those of AVX-512 with the products done by the tile registers.
#define ENNEAD_AMX (HWY_TARGET == HWY_AVX3 && HWY_ARCH_X86_64)
#endif  // ENNEAD_KERNELS_SHARED_TARGETS_H_

#include "hwy/foreach_target.h"
// Once per target, so outside the guard.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// ENNEAD_VECTORS_dtype(CODE): CODE where the target has vectors for that type of ENNEAD_FOR_EACH_ELEMENT_TYPE.
#undef ENNEAD_VECTORS_float32
#undef ENNEAD_VECTORS_float64
#define ENNEAD_VECTORS_float32(...) __VA_ARGS__
#if HWY_HAVE_FLOAT64
#define ENNEAD_VECTORS_float64(...) __VA_ARGS__
#else
#define ENNEAD_VECTORS_float64(...)
#endif
