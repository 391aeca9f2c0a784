// SPDX-License-Identifier: Apache-2.0
// Refuses flags that change the library's numbers: the softmax would be wrong by percents, a NaN would pass unseen.
// Our own build switches them off for its targets (cmake/options.cmake); another build must do the same.
#pragma once

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ != 0) || \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "ennead: expected arithmetic of IEEE 754, got -ffast-math or a part of it; add -fno-fast-math for these sources"
#endif
