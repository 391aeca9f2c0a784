// SPDX-License-Identifier: Apache-2.0
// Attention without the score matrix.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/attention/forward/attention.cpp"
#include "kernels/shared/targets.h"
#include "kernels/shared/attention/queue-inl.h"
#include "kernels/simd/attention/forward/worker-inl.h"
#include "kernels/simd/entries-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::simd {

/// A head's rows [row, row + rows), as far as there are any, for FetchQueue. Rows of spread elements are not fetched.
template <class T>
FetchRows<T> rows_to_fetch(const View<const T, 2>& head, std::int64_t row, std::int64_t rows) {
  if (head.stride(1) != 1 || row >= head.size(0)) return {};
  return {head.data + row * head.stride(0), std::min(rows, head.size(0) - row), head.stride(0), head.size(1)};
}

/// Keys and values of another group are fetched ahead only when they leave room for those in use.
constexpr std::int64_t kFetchGroupBytes = 1 << 19;

/// Has `fetches` fetch the keys and values of a group.
template <class T>
void fetch_group(const AttentionArgs<T>& args, std::int64_t group, FetchQueue<T>& fetches) {
  const std::int64_t bytes = args.k.size(2) * (args.k.size(3) + args.v.size(3)) * std::int64_t{sizeof(T)};
  if (bytes > kFetchGroupBytes) return;
  const std::int64_t batch = group / args.k.size(1), head = group % args.k.size(1);
  fetches.add(rows_to_fetch<T>(args.v[batch][head], 0, args.v.size(2)));
  fetches.add(rows_to_fetch<T>(args.k[batch][head], 0, args.k.size(2)));
}

/// Has `fetches` fetch the rows of a unit's result and the queries of the unit that follows it.
template <class T>
void fetch_unit(const AttentionArgs<T>& args, const AttentionQueue& queue, const AttentionQueue::Item& item,
                std::int64_t next_group, std::int64_t unit, FetchQueue<T>& fetches) {
  const std::int64_t kv_heads = args.k.size(1), heads_per_group = args.q.size(1) / kv_heads;
  const auto head_of = [&](const auto& view, std::int64_t group, std::int64_t at) {
    const auto head = view[group / kv_heads][group % kv_heads * heads_per_group + queue.head(at)];
    return View<const T, 2>{head.data, {head.size(0), head.size(1)}, {head.stride(0), head.stride(1)}};
  };
  if (unit + 1 < item.end) {
    fetches.add(rows_to_fetch<T>(head_of(args.q, item.group, unit + 1), queue.first_query(unit + 1), kBlockQueries));
  } else if (next_group >= 0) {
    fetches.add(rows_to_fetch<T>(head_of(args.q, next_group, 0), queue.first_query(0), kBlockQueries));
  }
  fetches.add(rows_to_fetch<T>(head_of(args.out, item.group, unit), queue.first_query(unit), kBlockQueries));
}

/// `next_group`: that of the item this worker will probably take next; -1: no other.
template <class T>
void run_attention_item(const AttentionArgs<T>& args, const AttentionQueue& queue, const AttentionQueue::Item& item,
                        std::int64_t next_group, AttentionWorker<T>& worker) {
  const std::int64_t kv_heads = args.k.size(1), heads_per_group = args.q.size(1) / kv_heads;
  const std::int64_t batch = item.group / kv_heads, kv_head = item.group % kv_heads;
  FetchQueue<T> fetches;
  if (next_group >= 0) fetch_group(args, next_group, fetches);
  for (std::int64_t unit = item.begin; unit < item.end; ++unit) {
    const HeadMask<T> mask{&args, args.k.size(2), batch, kv_head * heads_per_group + queue.head(unit)};
    const std::int64_t query = queue.first_query(unit);
    const std::int64_t rows = std::min<std::int64_t>(kBlockQueries, args.q.size(2) - query);
    pack_group(args, item.group, mask.limit(query + rows - 1), worker);
    const int before = fetches.size();
    fetch_unit(args, queue, item, next_group, unit, fetches);
    attend_queries(args, mask, query, rows, worker, fetches);
    fetches.shrink(before);  // what this unit did not get to is too late now
  }
}

template <class T>
void attention(Executor& executor, const AttentionArgs<T>& args, std::byte* scratch) {
  const int threads = executor.num_threads();
  const std::size_t bytes = AttentionWorker<T>::bytes(args);
  const auto worker_at = [&](int index) {
    std::byte* memory = scratch + static_cast<std::size_t>(index) * bytes;
    return AttentionWorker<T>::take(memory, args);
  };
  for (int i = 0; i < threads; ++i) worker_at(i).packed[0] = -1;
  const AttentionQueue queue(args, threads);
  executor.run(queue.size(), [&](std::int64_t index, int worker_index) {
    AttentionWorker<T> worker = worker_at(worker_index);
    const AttentionQueue::Item item = queue.item(index);
    const std::int64_t next = index + threads < queue.size() ? queue.item(index + threads).group : item.group;
    run_attention_item(args, queue, item, next == item.group ? -1 : next, worker);
  });
}

/// FLOPs of one strip: for each of its tiles the vectors of scores and the values its rows see.
template <class T>
double strip_flops(const HeadMask<T>& mask, std::int64_t query, std::int64_t rows, std::int64_t head_dim,
                   std::int64_t value_dim) {
  const std::int64_t limit = mask.limit(query + rows - 1), columns = padded_row<T>(value_dim);
  std::int64_t scores = 0, values = 0;
  for (std::int64_t key = 0; key < limit; key += kPanelKeys<T>) {
    if (mask.word_kind(query, rows, key) == WordKind::skipped) continue;
    for (std::int64_t row = 0; row < rows;) {
      const int count = next_tile_rows(rows - row);
      const std::int64_t seen = std::min(kPanelKeys<T>, mask.limit(query + row + count - 1) - key);
      if (seen > 0) scores += count * vectors_of<T>(seen) * kLanes<T>;
      if (seen > 0) values += count * seen;
      row += count;
    }
  }
  return 2.0 * static_cast<double>(scores * head_dim + values * columns);
}

template <class T>
double attention_executed_flops(const AttentionArgs<T>& args) {
  // A block is a whole number of strips.
  static_assert(kBlockQueries % kStripRows == 0);
  return sum_strip_flops(args, kStripRows, [&](const HeadMask<T>& mask, std::int64_t query, std::int64_t rows) {
    return strip_flops(mask, query, rows, args.q.size(3), args.v.size(3));
  });
}

template <class T>
std::size_t attention_scratch(const AttentionArgs<T>& args, int threads) {
  return static_cast<std::size_t>(threads) * AttentionWorker<T>::bytes(args);
}

#define ENNEAD_INSTANTIATE(dtype, T, SumType)                                                        \
  ENNEAD_VECTORS_##dtype(                                                                            \
      template std::size_t attention_scratch(const AttentionArgs<T>& args, int threads);             \
      template void attention(Executor& executor, const AttentionArgs<T>& args, std::byte* scratch); \
      template double attention_executed_flops(const AttentionArgs<T>& args);)
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::kernels::HWY_NAMESPACE::simd
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD
