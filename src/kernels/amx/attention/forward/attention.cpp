// SPDX-License-Identifier: Apache-2.0
// The entry of attention, and how its work is cut.

// The first include re-includes this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/amx/attention/forward/attention.cpp"
#include "kernels/amx/targets.h"
#include "kernels/amx/attention/forward/exact_rows-inl.h"
#include "kernels/amx/entries-inl.h"
#include "kernels/shared/attention/queue-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {
namespace {

/// What one worker owns.
struct Worker {
  std::int64_t* packed;  ///< {group, panels of keys packed of it}
  SplitHead head;
  AttentionScratch block;
  AttentionWorker<float> exact;

  static Worker take(std::byte*& memory, const AttentionArgs<float>& args) {
    Worker worker;
    worker.packed = take_scratch<std::int64_t>(memory, 2);
    worker.head = SplitHead::take(memory, args.k.size(2), args.k.size(3), args.v.size(3));
    worker.block = AttentionScratch::take(memory, args.k.size(3), args.v.size(3));
    worker.exact = AttentionWorker<float>::take(memory, args);
    return worker;
  }
  static std::size_t bytes(const AttentionArgs<float>& args) {
    return scratch_taken([&](std::byte*& memory) { take(memory, args); });
  }
};

/// Splits the keys and values of a group as far as its keys before `limit` go, and keeps what was split before.
void split_group(const AttentionArgs<float>& args, std::int64_t group, std::int64_t limit, const Worker& worker) {
  const std::int64_t batch = group / args.k.size(1), kv_head = group % args.k.size(1);
  if (worker.packed[0] != group) {
    worker.packed[0] = group;
    worker.packed[1] = 0;
  }
  // Whole steps, so that their norms are those of all their keys.
  const std::int64_t panels = panels_of(std::min(args.k.size(2), ceil_div(limit, kStepKeys) * kStepKeys));
  for (; worker.packed[1] < panels; ++worker.packed[1]) {
    split_keys(args.k[batch][kv_head], key_factor(args), args.v[batch][kv_head], 0, worker.packed[1] * kPanel,
               worker.block.buffer, worker.head);
  }
}

void run_item(const AttentionArgs<float>& args, const AttentionQueue& queue, const AttentionQueue::Item& item,
              Worker& worker) {
  const std::int64_t kv_heads = args.k.size(1), heads_per_group = args.q.size(1) / kv_heads;
  const std::int64_t batch = item.group / kv_heads, kv_head = item.group % kv_heads;
  for (std::int64_t unit = item.begin; unit < item.end; ++unit) {
    const HeadMask<float> mask{&args, args.k.size(2), batch, kv_head * heads_per_group + queue.head(unit)};
    const std::int64_t query = queue.first_query(unit);
    const std::int64_t rows = std::min<std::int64_t>(kBlockQueries, args.q.size(2) - query);
    split_group(args, item.group, mask.limit(query + rows - 1), worker);
    const View<const float, 2> q = args.q[batch][mask.head];
    split_queries({q.data + query * q.stride(0), {rows, q.size(1)}, q.strides}, worker.block);
    if (attend_block(mask, worker.head, query, rows, worker.block, output_of(args, mask, query))) {
      attend_exactly(args, mask, query, rows, worker.block, worker.exact);
      if (args.score_mod.function) configure_tiles();
    }
  }
}

/// FLOPs of the products of float32 that the products of a strip of `rows` <= 32 queries stand for.
double strip_flops(const HeadMask<float>& mask, std::int64_t query, std::int64_t rows, std::int64_t depth,
                   std::int64_t columns) {
  const std::int64_t limit = mask.limit(query + rows - 1);
  std::int64_t scores = 0, values = 0;
  for (std::int64_t key = 0; key < limit; key += kPanel) {
    const std::int64_t word = key / kWordKeys<float> * kWordKeys<float>;
    if (mask.word_kind(query, rows, word) == WordKind::skipped) continue;
    for (std::int64_t row = 0; row < rows; row += kSide) {
      const std::int64_t seen = mask.limit(query + std::min(rows, row + kSide) - 1) - key;
      if (seen > 0) scores += kSide * (seen > kSide ? kPanel : kSide);
      values += kSide * kPanel;
    }
  }
  return 2.0 * static_cast<double>(scores * depth + values * columns);
}

}  // namespace

std::size_t attention_scratch(const AttentionArgs<float>& args, int threads) {
  return static_cast<std::size_t>(threads) * Worker::bytes(args);
}

void attention(Executor& executor, const AttentionArgs<float>& args, std::byte* scratch) {
  const int threads = executor.num_threads();
  const std::size_t bytes = Worker::bytes(args);
  const auto worker_at = [&](int index) {
    std::byte* memory = scratch + static_cast<std::size_t>(index) * bytes;
    return Worker::take(memory, args);
  };
  for (int i = 0; i < threads; ++i) {
    const Worker worker = worker_at(i);
    worker.packed[0] = worker.exact.packed[0] = -1;
  }
  const AttentionQueue queue(args, threads);
  executor.run(queue.size(), [&](std::int64_t index, int worker_index) {
    Worker worker = worker_at(worker_index);
    const TileRegisters registers;
    run_item(args, queue, queue.item(index), worker);
  });
}

double attention_executed_flops(const AttentionArgs<float>& args) {
  const std::int64_t depth = depth_slices(args.k.size(3)) * kSliceDepth;
  const std::int64_t columns = ceil_div(args.v.size(3), kSide) * kSide;
  return sum_strip_flops(args, kPanel, [&](const HeadMask<float>& mask, std::int64_t query, std::int64_t rows) {
    return strip_flops(mask, query, rows, depth, columns);
  });
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX
