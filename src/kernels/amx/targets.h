// SPDX-License-Identifier: Apache-2.0
// First include of a file with kernels for AMX, which are those of AVX-512: no other target is compiled from it.
#ifndef ENNEAD_KERNELS_AMX_TARGETS_H_
#define ENNEAD_KERNELS_AMX_TARGETS_H_
#define ENNEAD_OTHER_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX2)
#endif  // ENNEAD_KERNELS_AMX_TARGETS_H_

// Once per target, so outside the guard.
#include "kernels/shared/targets.h"
