// SPDX-License-Identifier: Apache-2.0
// Attention over strided tensors: how the work is cut, and the packing each worker does for itself.

// clang-format off
#if defined(ENNEAD_KERNELS_SIMD_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SIMD_ATTENTION_INL_H_
#undef ENNEAD_KERNELS_SIMD_ATTENTION_INL_H_
#else
#define ENNEAD_KERNELS_SIMD_ATTENTION_INL_H_
#endif
#include "kernels/simd/attention_block-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// The work as a queue: (batch, key head) after (batch, key head), whole ones first, the last few cut
/// into chunks of query blocks so that workers finish together. Bits do not depend on the cuts.
class AttentionQueue {
 public:
  template <class T>
  AttentionQueue(const AttentionArgs<T>& args, int threads)
      : groups_(args.q.size(0) * args.k.size(1)),
        heads_per_group_(args.k.size(1) == 0 ? 0 : args.q.size(1) / args.k.size(1)),
        blocks_(ceil_div(args.q.size(2), kBlockQueries)) {
    const std::int64_t units = heads_per_group_ * blocks_;
    if (threads > 1) cut_ = std::min<std::int64_t>(groups_, 2 * threads);
    if (cut_ > 0) chunks_ = std::clamp<std::int64_t>(16 * threads / cut_, 1, std::max<std::int64_t>(1, units));
  }

  std::int64_t size() const { return groups_ - cut_ + cut_ * chunks_; }

  /// A stretch of the blocks of a group's heads.
  struct Item {
    std::int64_t group, begin, end;
  };
  Item item(std::int64_t index) const {
    const std::int64_t whole = groups_ - cut_, units = heads_per_group_ * blocks_;
    if (index < whole) return {index, 0, units};
    const std::int64_t chunk = (index - whole) % chunks_;
    return {whole + (index - whole) / chunks_, units * chunk / chunks_, units * (chunk + 1) / chunks_};
  }

  /// Which head of the group and which block a unit is: late queries, which see the most keys when
  /// causal, come first.
  std::int64_t head(std::int64_t unit) const { return unit % heads_per_group_; }
  std::int64_t first_query(std::int64_t unit) const { return (blocks_ - 1 - unit / heads_per_group_) * kBlockQueries; }

 private:
  std::int64_t groups_, heads_per_group_, blocks_, cut_ = 0, chunks_ = 1;
};

/// What one worker owns: the packed keys and values of the group it is at, and its block.
template <class T>
struct AttentionWorker {
  std::int64_t* packed;  ///< {group, steps packed of it}
  T* values;             ///< memory for head.values
  PackedHead<T> head;
  BlockScratch<T> block;

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
    worker.block = BlockScratch<T>::take(memory, args.k.size(3), args.v.size(3));
    return worker;
  }

  static std::size_t bytes(const AttentionArgs<T>& args) {
    return scratch_taken([&](std::byte*& memory) { take(memory, args); });
  }
};

template <class T>
std::size_t attention_scratch(const AttentionArgs<T>& args, int threads) {
  return static_cast<std::size_t>(threads) * AttentionWorker<T>::bytes(args);
}

/// Keys are packed times this: scores come out as powers of two, unless a score_mod must see them first.
template <class T>
T key_factor(const AttentionArgs<T>& args) {
  const bool natural = args.score_mod.function != nullptr;
  return natural ? args.scale : static_cast<T>(static_cast<double>(args.scale) * kLog2E<double>);
}

/// A head's rows [row, row + rows), as far as there are any, for Feed. Rows of spread elements are not fetched.
template <class T>
FeedRows<T> rows_ahead(const View<const T, 2>& head, std::int64_t row, std::int64_t rows) {
  if (head.stride(1) != 1 || row >= head.size(0)) return {};
  return {head.data + row * head.stride(0), std::min(rows, head.size(0) - row), head.stride(0), head.size(1)};
}

/// Where the results of a head go, from those of `query`.
template <class T>
BlockOutput<T> output_of(const AttentionArgs<T>& args, const HeadMask<T>& mask, std::int64_t query) {
  const View<T, 2> out = args.out[mask.batch][mask.head];
  BlockOutput<T> to{out.data + query * out.stride(0), out.stride(0), out.stride(1), args.v.size(3), nullptr, 0};
  if (args.lse.data) {
    const View<T, 1> lse = args.lse[mask.batch][mask.head];
    to.lse = lse.data + query * lse.stride(0);
    to.lse_stride = lse.stride(0);
  }
  return to;
}

/// Attention of `rows` queries, at most a block.
template <class T>
void attend_queries(const AttentionArgs<T>& args, const HeadMask<T>& mask, std::int64_t query, std::int64_t rows,
                    AttentionWorker<T>& worker, Feed<T>& feed) {
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
                  feed);
}

/// Keys and values of another group are fetched ahead only when they leave room for those in use.
constexpr std::int64_t kAheadBytes = 1 << 19;

/// Has `feed` fetch the keys and values of a group.
template <class T>
void feed_group(const AttentionArgs<T>& args, std::int64_t group, Feed<T>& feed) {
  const std::int64_t bytes = args.k.size(2) * (args.k.size(3) + args.v.size(3)) * std::int64_t{sizeof(T)};
  if (bytes > kAheadBytes) return;
  const std::int64_t batch = group / args.k.size(1), head = group % args.k.size(1);
  feed.add(rows_ahead<T>(args.v[batch][head], 0, args.v.size(2)));
  feed.add(rows_ahead<T>(args.k[batch][head], 0, args.k.size(2)));
}

/// Has `feed` fetch the rows of a unit's result and the queries of the unit that follows it.
template <class T>
void feed_unit(const AttentionArgs<T>& args, const AttentionQueue& queue, const AttentionQueue::Item& item,
               std::int64_t next_group, std::int64_t unit, Feed<T>& feed) {
  const std::int64_t kv_heads = args.k.size(1), heads_per_group = args.q.size(1) / kv_heads;
  const auto head_of = [&](const auto& view, std::int64_t group, std::int64_t at) {
    const auto head = view[group / kv_heads][group % kv_heads * heads_per_group + queue.head(at)];
    return View<const T, 2>{head.data, {head.size(0), head.size(1)}, {head.stride(0), head.stride(1)}};
  };
  if (unit + 1 < item.end) {
    feed.add(rows_ahead<T>(head_of(args.q, item.group, unit + 1), queue.first_query(unit + 1), kBlockQueries));
  } else if (next_group >= 0) {
    feed.add(rows_ahead<T>(head_of(args.q, next_group, 0), queue.first_query(0), kBlockQueries));
  }
  feed.add(rows_ahead<T>(head_of(args.out, item.group, unit), queue.first_query(unit), kBlockQueries));
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

/// `next_group`: that of the item this worker will probably take next; -1: no other.
template <class T>
void run_attention_item(const AttentionArgs<T>& args, const AttentionQueue& queue, const AttentionQueue::Item& item,
                        std::int64_t next_group, AttentionWorker<T>& worker) {
  const std::int64_t kv_heads = args.k.size(1), heads_per_group = args.q.size(1) / kv_heads;
  const std::int64_t batch = item.group / kv_heads, kv_head = item.group % kv_heads;
  Feed<T> feed;
  if (next_group >= 0) feed_group(args, next_group, feed);
  for (std::int64_t unit = item.begin; unit < item.end; ++unit) {
    const HeadMask<T> mask{&args, args.k.size(2), batch, kv_head * heads_per_group + queue.head(unit)};
    const std::int64_t query = queue.first_query(unit);
    const std::int64_t rows = std::min<std::int64_t>(kBlockQueries, args.q.size(2) - query);
    pack_group(args, item.group, mask.limit(query + rows - 1), worker);
    const int fed = feed.size();
    feed_unit(args, queue, item, next_group, unit, feed);
    attend_queries(args, mask, query, rows, worker, feed);
    feed.shrink(fed);  // what this unit did not get to is too late now
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

/// FLOPs of one tile: for each of its register tiles the vectors of scores and the values its rows see.
template <class T>
double tile_flops(const HeadMask<T>& mask, std::int64_t query, std::int64_t rows, std::int64_t head_dim,
                  std::int64_t value_dim) {
  const std::int64_t limit = mask.limit(query + rows - 1), columns = padded_row<T>(value_dim);
  std::int64_t scores = 0, values = 0;
  for (std::int64_t key = 0; key < limit; key += kPanelKeys<T>) {
    if (mask.panel_kind(query, rows, key) == PanelKind::skipped) continue;
    for (std::int64_t row = 0; row < rows;) {
      const int count = next_rows(rows - row);
      const std::int64_t seen = std::min(kPanelKeys<T>, mask.limit(query + row + count - 1) - key);
      if (seen > 0) scores += count * vectors_of<T>(seen) * kLanes<T>;
      if (seen > 0) values += count * seen;
      row += count;
    }
  }
  return 2.0 * static_cast<double>(scores * head_dim + values * columns);
}

/// The sum of flops(mask, query, rows) over the tiles of `tile_rows` queries of all heads.
template <class T, class TileFlops>
double sum_tile_flops(const AttentionArgs<T>& args, std::int64_t tile_rows, TileFlops flops) {
  // Without a block mask all heads do the same.
  const bool alike = args.blocks.block_q == 0;
  const std::int64_t batches = alike ? 1 : args.q.size(0), heads = alike ? 1 : args.q.size(1);
  const std::int64_t num_queries = args.q.size(2);
  double sum = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const HeadMask<T> mask{&args, args.k.size(2), batch, head};
      for (std::int64_t query = 0; query < num_queries; query += tile_rows) {
        sum += flops(mask, query, std::min(tile_rows, num_queries - query));
      }
    }
  }
  return alike ? sum * static_cast<double>(args.q.size(0) * args.q.size(1)) : sum;
}

template <class T>
double attention_executed_flops(const AttentionArgs<T>& args) {
  // A block is a whole number of tiles.
  static_assert(kBlockQueries % kTileRows == 0);
  return sum_tile_flops(args, kTileRows, [&](const HeadMask<T>& mask, std::int64_t query, std::int64_t rows) {
    return tile_flops(mask, query, rows, args.q.size(3), args.v.size(3));
  });
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
