// SPDX-License-Identifier: Apache-2.0
// The tables of kernels, one per instruction set that this build holds.
#pragma once

#include "kernels/kernels.h"

namespace ennead::kernels {

template <class T>
const Kernels<T>& scalar_kernels();

}  // namespace ennead::kernels
