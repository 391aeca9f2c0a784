// SPDX-License-Identifier: Apache-2.0
// The one door to the kernels: the table of an instruction set. What each kernel takes and computes stands in the
// header of its family. Kernels need View and Executor only. They allocate nothing (scratch is the caller's), throw
// nothing, and give the same bits for any number of threads and any batch neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/exact_arithmetic.h"
#include "ennead/cpu.h"
#include "ennead/executor.h"
#include "ennead/view.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/module.h"
#include "kernels/products.h"

namespace ennead::kernels {

/// All kernels of one instruction set. Scratch sizes are in bytes, for all workers together;
/// scratch must be 64-byte aligned and may hold anything.
template <class T>
struct Kernels {
  Isa isa;

  std::size_t (*packed_bytes)(std::int64_t n, std::int64_t k);
  /// `packed` must be 64-byte aligned.
  void (*pack_weights)(View<const T, 2> w, PackedByte* packed);
  std::size_t (*linear_scratch)(const LinearArgs<T>& args, int threads);
  void (*linear)(Executor& executor, const LinearArgs<T>& args, std::byte* scratch);

  std::size_t (*matmul_scratch)(const MatmulArgs<T>& args, int threads);
  void (*matmul)(Executor& executor, const MatmulArgs<T>& args, std::byte* scratch);

  void (*softmax)(Executor& executor, const SoftmaxArgs<T>& args);

  std::size_t (*attention_scratch)(const AttentionArgs<T>& args, int threads);
  void (*attention)(Executor& executor, const AttentionArgs<T>& args, std::byte* scratch);
  /// Multiply-adds * 2 the attention kernel really does for these arguments.
  double (*attention_executed_flops)(const AttentionArgs<T>& args);

  std::size_t (*module_packed_bytes)(std::int64_t d_in, std::int64_t d_out, std::int64_t num_heads);
  void (*pack_module)(const ModuleWeights<T>& weights, PackedByte* packed);
  std::size_t (*module_scratch)(const ModuleArgs<T>& args, int threads);
  void (*module)(Executor& executor, const ModuleArgs<T>& args, std::byte* scratch);

  /// Runs `iterations` rounds of independent register multiply-adds and returns how many FLOPs that
  /// was: the peak every share is measured against. Writes nothing but `sink`.
  double (*peak_loop)(std::int64_t iterations, Sum<T>* sink);
};

/// The table of one instruction set, one of supported_isas(). T: one of ENNEAD_FOR_EACH_ELEMENT_TYPE.
template <class T>
const Kernels<T>& kernels_for(Isa isa);

}  // namespace ennead::kernels
