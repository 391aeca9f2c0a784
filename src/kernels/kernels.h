// SPDX-License-Identifier: Apache-2.0
// The one door to the kernels: what each computes and the table that picks an instruction set.
// Kernels need View and Executor only. They allocate nothing (scratch is the caller's), throw
// nothing, and give the same bits for any number of threads and any batch neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ennead/cpu.h"
#include "ennead/executor.h"
#include "ennead/view.h"

namespace ennead::kernels {

/// y[m, n] = sum_k x[m, k] * w[n, k] + bias[n]   (w in torch's [out, in] layout, packed)
template <class T>
struct LinearArgs {
  View<const T, 2> x;         ///< [m, k], any strides
  const T* packed = nullptr;  ///< from pack_weights() of the same instruction set
  const T* bias = nullptr;    ///< [n] contiguous, or nullptr
  View<T, 2> y;               ///< [m, n], any strides; overwritten
};

/// c[p, q, m, n] = alpha * sum_k a[p, q, m, k] * b[p, q, k, n]  (+ c when accumulate)
/// Two batch axes; any strides, 0 included for a and b.
template <class T>
struct MatmulArgs {
  View<const T, 4> a;  ///< [p, q, m, k]
  View<const T, 4> b;  ///< [p, q, k, n]
  View<T, 4> c;        ///< [p, q, m, n]
  T alpha = 1;
  bool accumulate = false;
};

/// Softmax along the last axis. A row of -inf only gives zeros (no allowed key). NaN propagates.
template <class T>
struct SoftmaxArgs {
  View<const T, 2> x;  ///< [rows, n], any strides
  View<T, 2> y;        ///< [rows, n], any strides; may be x itself
  T scale = 1;         ///< softmax(scale * x)
};

/// A block mask as attention reads it: the (query, key) plane cut into blocks.
struct BlockMaskArgs {
  std::int64_t block_q = 0, block_k = 0;      ///< block sides; 0: no block mask
  std::int64_t batch_stride = 0;              ///< blocks between batches in `kinds`; 0: shared
  std::int64_t head_stride = 0;               ///< blocks between heads in `kinds`; 0: shared
  std::int64_t blocks_per_row = 0;            ///< key blocks in a row of blocks
  const std::uint8_t* kinds = nullptr;        ///< 0 empty, 1 full, 2 partial; [batch][head][qb][kb]
  const std::int64_t* bit_offsets = nullptr;  ///< as kinds: first word of a partial block in `bits`
  /// A partial block: block_q rows of ceil(block_k / 64) words, bit j of a row set when key j of
  /// the block may be seen.
  const std::uint64_t* bits = nullptr;
};

/// Changes a tile of scores in place, after scale and before masks:
/// scores[i * row_stride + j] belongs to (batch, head, query0 + i, key0 + j).
template <class T>
struct ScoreMod {
  using Function = void (*)(const void* state, T* scores, std::int64_t row_stride, std::int64_t batch,
                            std::int64_t head, std::int64_t query0, std::int64_t num_queries, std::int64_t key0,
                            std::int64_t num_keys);
  Function function = nullptr;
  const void* state = nullptr;
};

/// out = softmax(mask(mod(scale * q k^T) + bias)) v, exactly, without the score matrix.
/// Masks are combined by AND. A row with no allowed key gives zeros and lse = -inf. What a mask
/// blocks is never read into a result: NaN and Inf there do not leak. Key head = head /
/// (heads / kv_heads).
template <class T>
struct AttentionArgs {
  View<const T, 4> q;  ///< [batch, heads, num_queries, head_dim]
  View<const T, 4> k;  ///< [batch, kv_heads, num_keys, head_dim]
  View<const T, 4> v;  ///< [batch, kv_heads, num_keys, value_dim]
  View<T, 4> out;      ///< [batch, heads, num_queries, value_dim]
  View<T, 3> lse;      ///< [batch, heads, num_queries] natural log; data nullptr: not wanted
  T scale = 1;
  bool causal = false;  ///< key <= query + causal_offset
  std::int64_t causal_offset = 0;
  View<const bool, 4> allow;  ///< [batch, heads, num_queries, num_keys] or data nullptr
  View<const T, 4> bias;      ///< as allow; added to the scaled score
  BlockMaskArgs blocks;
  ScoreMod<T> score_mod;
};

/// Variant 10: x -> multi-head self-attention -> out, a head at a time, Q, K and V in cache.
template <class T>
struct ModuleArgs {
  View<const T, 3> x;         ///< [batch, num_tokens, d_in]
  const T* packed = nullptr;  ///< from pack_module()
  View<T, 3> out;             ///< [batch, num_tokens, d_out]
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

/// All kernels of one instruction set. Scratch sizes are in bytes, for all workers together;
/// scratch must be 64-byte aligned and may hold anything.
template <class T>
struct Kernels {
  Isa isa;

  std::size_t (*packed_elements)(std::int64_t n, std::int64_t k);
  void (*pack_weights)(View<const T, 2> w, T* packed);
  std::size_t (*linear_scratch)(const LinearArgs<T>& args, int threads);
  void (*linear)(Executor& executor, const LinearArgs<T>& args, std::byte* scratch);

  std::size_t (*matmul_scratch)(const MatmulArgs<T>& args, int threads);
  void (*matmul)(Executor& executor, const MatmulArgs<T>& args, std::byte* scratch);

  void (*softmax)(Executor& executor, const SoftmaxArgs<T>& args);

  std::size_t (*attention_scratch)(const AttentionArgs<T>& args, int threads);
  void (*attention)(Executor& executor, const AttentionArgs<T>& args, std::byte* scratch);
  /// Multiply-adds * 2 the attention kernel really does for these arguments.
  double (*attention_executed_flops)(const AttentionArgs<T>& args);

  std::size_t (*module_packed_elements)(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads);
  void (*pack_module)(const ModuleWeights<T>& weights, T* packed);
  std::size_t (*module_scratch)(const ModuleArgs<T>& args, int threads);
  void (*module)(Executor& executor, const ModuleArgs<T>& args, std::byte* scratch);

  /// Runs `iterations` rounds of independent register multiply-adds and returns how many FLOPs that
  /// was: the peak every share is measured against. Writes nothing but `sink`.
  double (*peak_loop)(std::int64_t iterations, T* sink);
};

/// The table of one instruction set, which must be supported_isas() material. T: float, double.
template <class T>
const Kernels<T>& kernels_for(Isa isa);

}  // namespace ennead::kernels
