// SPDX-License-Identifier: Apache-2.0
// Fetching: asking for lines of memory before they are needed. Addresses need not be readable; nothing is written.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_FETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_FETCH_INL_H_
#undef ENNEAD_KERNELS_SHARED_FETCH_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_FETCH_INL_H_
#endif
#include "kernels/shared/vector/vector-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// Brings the line at p into the nearest cache.
HWY_INLINE void fetch_line(const void* p) { __builtin_prefetch(p); }

/// Brings the line at p into the second level cache.
HWY_INLINE void fetch_line_to_second_level(const void* p) { __builtin_prefetch(p, 0, 2); }

/// Brings the line at p into the nearest cache, to be written.
HWY_INLINE void fetch_line_to_write(const void* p) { __builtin_prefetch(p, 1); }

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
