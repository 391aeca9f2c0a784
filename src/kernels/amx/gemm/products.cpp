// SPDX-License-Identifier: Apache-2.0
// Products of matrices: y = x W^T with packed weights, batched products, and the loop that shows the most that tile
// registers can do.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx/gemm/products.cpp"
#include "kernels/amx/targets.h"
#include "kernels/amx/gemm/linear-inl.h"
#include "kernels/amx/gemm/matmul-inl.h"
#include "kernels/amx/tile/peak-inl.h"
// clang-format on
