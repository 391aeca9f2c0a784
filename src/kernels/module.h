// SPDX-License-Identifier: Apache-2.0
// The whole module: what its kernels take.
#pragma once

#include <cstdint>

#include "ennead/packed_byte.h"
#include "ennead/view.h"

namespace ennead::kernels {

/// Variant 10: x -> multi-head self-attention -> out, a head at a time, Q, K and V in cache.
template <class T>
struct ModuleArgs {
  View<const T, 3> x;                  ///< [batch, num_tokens, d_in]
  const PackedByte* packed = nullptr;  ///< from pack_module() of the same instruction set
  View<T, 3> out;                      ///< [batch, num_tokens, d_out]
  std::int64_t num_heads = 1;
  bool causal = true;
};

/// Torch-layout weights of the module; biases may be nullptr.
template <class T>
struct ModuleWeights {
  View<const T, 2> W_query, W_key, W_value;  ///< [d_out, d_in]
  View<const T, 2> out_proj;                 ///< [d_out, d_out]
  const T *b_query = nullptr, *b_key = nullptr, *b_value = nullptr, *b_out = nullptr;
  std::int64_t num_heads = 1;
};

}  // namespace ennead::kernels
