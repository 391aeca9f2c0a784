// SPDX-License-Identifier: Apache-2.0
// What a worker of attention owns, and the packing it does for itself.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_WORKER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_WORKER_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_WORKER_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_FORWARD_WORKER_INL_H_
#endif
#include "kernels/simd/attention/forward/block-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// What one worker owns: the packed keys and values of the group it is at, and its block.
template <class T>
struct AttentionWorker {
  std::int64_t* packed;  ///< {group, steps packed of it}
  T* values;             ///< memory for head.values
  PackedHead<T> head;
  AttentionScratch<T> block;

  static AttentionWorker take(std::byte*& memory, const AttentionArgs<T>& args) {
    const std::int64_t num_steps = ceil_div(args.k.size(2), kStepKeys), keys = num_steps * kStepKeys;
    AttentionWorker worker;
    worker.packed = take_scratch<std::int64_t>(memory, 2);
    worker.head.head_dim = args.k.size(3);
    worker.head.value_stride = padded_row<T>(args.v.size(3));
    worker.head.keys = take_scratch<T>(memory, keys * worker.head.head_dim);
    worker.values = take_scratch<T>(memory, keys * worker.head.value_stride);
    worker.head.key_norms = take_scratch<T>(memory, num_steps);
    worker.head.value_maxima = take_scratch<T>(memory, num_steps);
    worker.head.value_minima = take_scratch<T>(memory, num_steps);
    worker.block = AttentionScratch<T>::take(memory, args.k.size(3), args.v.size(3));
    return worker;
  }

  static std::size_t bytes(const AttentionArgs<T>& args) {
    return scratch_taken([&](std::byte*& memory) { take(memory, args); });
  }
};

/// Attention of `rows` queries, at most a block.
template <class T>
void attend_queries(const AttentionArgs<T>& args, const HeadMask<T>& mask, std::int64_t query, std::int64_t rows,
                    AttentionWorker<T>& worker, FetchQueue<T>& fetches) {
  const View<const T, 2> q = args.q[mask.batch][mask.head];
  const std::int64_t head_dim = q.size(1);
  // Queries are read an element at a time: where they lie, if their elements lie side by side.
  const bool in_place = q.stride(1) == 1;
  const T* const queries = in_place ? q.data + query * q.stride(0) : worker.block.queries;
  const std::int64_t query_stride = in_place ? q.stride(0) : head_dim;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!in_place) {
      const T* from = q.data + (query + i) * q.stride(0);
      for (std::int64_t j = 0; j < head_dim; ++j) worker.block.queries[i * head_dim + j] = from[j * q.stride(1)];
    }
    worker.block.query_norms[i] = row_norm(queries + i * query_stride, head_dim);
  }
  attend_block<T>(mask, worker.head, query, rows, queries, query_stride, worker.block, output_of(args, mask, query),
                  fetches);
}

/// Packs the keys and values of a group as far as its keys before `limit` go, and keeps what was packed before.
template <class T>
void pack_group(const AttentionArgs<T>& args, std::int64_t group, std::int64_t limit, AttentionWorker<T>& worker) {
  const std::int64_t batch = group / args.k.size(1), kv_head = group % args.k.size(1);
  const View<const T, 2> k = args.k[batch][kv_head], v = args.v[batch][kv_head];
  if (worker.packed[0] != group) {
    worker.packed[0] = group;
    worker.packed[1] = 0;
  }
  worker.head.values = values_in_place(v) ? v.data : worker.values;
  for (const std::int64_t steps = ceil_div(limit, kStepKeys); worker.packed[1] < steps; ++worker.packed[1]) {
    pack_step(k, key_factor(args), v, worker.packed[1], worker.values, worker.head);
  }
}

/// Attention of one query by itself, for kernels that leave some to this one.
template <class T>
void attend_query(const AttentionArgs<T>& args, const HeadMask<T>& mask, std::int64_t query,
                  AttentionWorker<T>& worker) {
  const std::int64_t heads_per_group = args.q.size(1) / args.k.size(1);
  pack_group(args, mask.batch * args.k.size(1) + mask.head / heads_per_group, mask.limit(query), worker);
  FetchQueue<T> none;
  attend_queries(args, mask, query, 1, worker, none);
}

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
