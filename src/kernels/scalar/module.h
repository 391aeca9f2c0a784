// SPDX-License-Identifier: Apache-2.0
// The module as three calls, for an instruction set that has no fused one.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/kernels.h"
#include "kernels/scalar/attention.h"
#include "kernels/scalar/products.h"
#include "kernels/scratch_pieces.h"

namespace ennead::kernels::scalar {

/// Packed: the [d_in, 3 * d_out] weights of Q, K, V, their biases, [d_out, d_out] of out_proj, its bias.
template <class T>
std::size_t module_packed_bytes(std::int64_t d_in, std::int64_t d_out, std::int64_t) {
  return static_cast<std::size_t>((d_in + 1) * 3 * d_out + (d_out + 1) * d_out) * sizeof(T);
}

template <class T>
void pack_module(const ModuleWeights<T>& weights, PackedByte* packed) {
  T* to = reinterpret_cast<T*>(packed);
  const std::int64_t d_out = weights.W_query.size(0), d_in = weights.W_query.size(1);
  for (std::int64_t k = 0; k < d_in; ++k) {
    for (const View<const T, 2>& w : {weights.W_query, weights.W_key, weights.W_value}) {
      for (std::int64_t n = 0; n < d_out; ++n) *to++ = w(n, k);
    }
  }
  for (const T* bias : {weights.b_query, weights.b_key, weights.b_value}) {
    for (std::int64_t n = 0; n < d_out; ++n) *to++ = bias ? bias[n] : T(0);
  }
  pack_weights(weights.out_proj, reinterpret_cast<PackedByte*>(to));
  to += d_out * d_out;
  for (std::int64_t n = 0; n < d_out; ++n) *to++ = weights.b_out ? weights.b_out[n] : T(0);
}

/// The steps of the module, over its scratch: Q, K, V side by side per token, then the context vectors.
template <class T>
struct ModuleSteps {
  LinearArgs<T> in_proj, out_proj;  ///< of one batch item; x, y are set per item
  AttentionArgs<T> attention;

  ModuleSteps(const ModuleArgs<T>& args, T* qkv, T* context) {
    const std::int64_t batch = args.x.size(0), tokens = args.x.size(1), d_in = args.x.size(2), d_out = args.out.size(2);
    const std::int64_t head_dim = d_out / args.num_heads;
    const T* const packed = reinterpret_cast<const T*>(args.packed);
    in_proj.packed = args.packed;
    in_proj.bias = packed + d_in * 3 * d_out;
    const T* const out_weights = in_proj.bias + 3 * d_out;
    out_proj.packed = reinterpret_cast<const PackedByte*>(out_weights);
    out_proj.bias = out_weights + d_out * d_out;
    const auto heads = [&](auto* data, std::int64_t row) {
      return View<std::remove_pointer_t<decltype(data)>, 4>{
          data, {batch, args.num_heads, tokens, head_dim}, {tokens * row, head_dim, row, 1}};
    };
    attention.q = heads(qkv, 3 * d_out);
    attention.k = heads(qkv + d_out, 3 * d_out);
    attention.v = heads(qkv + 2 * d_out, 3 * d_out);
    attention.out = heads(context, d_out);
    attention.scale = Sum<T>(1) / std::sqrt(static_cast<Sum<T>>(head_dim));
    attention.causal = args.causal;
  }
};

template <class T>
std::size_t module_scratch(const ModuleArgs<T>& args, int threads) {
  const std::int64_t rows = args.x.size(0) * args.x.size(1), d_out = args.out.size(2);
  return scratch_bytes<T>(rows * 3 * d_out) + scratch_bytes<T>(rows * d_out) +
         static_cast<std::size_t>(threads) * attention_worker_bytes<T>(args.x.size(1), d_out / args.num_heads);
}

template <class T>
void module(Executor& executor, const ModuleArgs<T>& args, std::byte* scratch) {
  const std::int64_t tokens = args.x.size(1), d_out = args.out.size(2);
  T* qkv = take_scratch<T>(scratch, args.x.size(0) * tokens * 3 * d_out);
  T* context = take_scratch<T>(scratch, args.x.size(0) * tokens * d_out);
  ModuleSteps<T> steps(args, qkv, context);
  for (std::int64_t b = 0; b < args.x.size(0); ++b) {
    steps.in_proj.x = args.x[b];
    steps.in_proj.y = View<T, 2>::contiguous(qkv + b * tokens * 3 * d_out, {tokens, 3 * d_out});
    linear(executor, steps.in_proj, nullptr);
  }
  attention(executor, steps.attention, scratch);
  for (std::int64_t b = 0; b < args.x.size(0); ++b) {
    steps.out_proj.x = View<const T, 2>::contiguous(context + b * tokens * d_out, {tokens, d_out});
    steps.out_proj.y = args.out[b];
    linear(executor, steps.out_proj, nullptr);
  }
}

}  // namespace ennead::kernels::scalar
