// SPDX-License-Identifier: Apache-2.0
// Attention as plain loops, a query row at a time: what the vectorised kernel must compute.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/scalar/elementwise.h"
#include "kernels/scratch_pieces.h"

namespace ennead::kernels::scalar {

/// Where a row of scores lies.
struct RowIndex {
  std::int64_t batch, head, query;
};

/// Keys at or beyond this one are not seen by `query`.
template <class T>
std::int64_t limit_of(const AttentionArgs<T>& args, std::int64_t query) {
  return args.causal ? causal_limit(query, args.causal_offset, args.k.size(2)) : args.k.size(2);
}

inline bool block_mask_allows(const BlockMaskArgs& blocks, RowIndex row, std::int64_t key) {
  if (blocks.block_q == 0) return true;
  const std::int64_t block = row.batch * blocks.batch_stride + row.head * blocks.head_stride +
                             row.query / blocks.block_q * blocks.blocks_per_row + key / blocks.block_k;
  const auto kind = static_cast<BlockKind>(blocks.kinds[block]);
  if (kind != BlockKind::partial) return kind == BlockKind::full;
  const std::int64_t words_per_row = ceil_div(blocks.block_k, 64), bit = key % blocks.block_k;
  const std::int64_t word = blocks.bit_offsets[block] + row.query % blocks.block_q * words_per_row + bit / 64;
  return (blocks.bits[word] >> (bit % 64) & 1) != 0;
}

/// All masks but the additive one, combined by AND.
template <class T>
bool allowed(const AttentionArgs<T>& args, RowIndex row, std::int64_t key) {
  return key < limit_of(args, row.query) && block_mask_allows(args.blocks, row, key) &&
         (!args.allow.data || args.allow(row.batch, row.head, row.query, key));
}

/// scores[key] of one row: masked ones are kBlocked.
template <class T>
void score_row(const AttentionArgs<T>& args, RowIndex row, Sum<T>* scores) {
  using S = Sum<T>;
  const auto [batch, head, query] = row;
  const std::int64_t head_dim = args.q.size(3), num_keys = args.k.size(2);
  const std::int64_t kv_head = head / (args.q.size(1) / args.k.size(1));
  for (std::int64_t key = 0; key < num_keys; ++key) {
    scores[key] = S(0);
    if (!allowed(args, row, key)) continue;
    for (std::int64_t d = 0; d < head_dim; ++d) {
      scores[key] += static_cast<S>(args.q(batch, head, query, d)) * static_cast<S>(args.k(batch, kv_head, key, d));
    }
    scores[key] *= args.scale;
  }
  if (args.score_mod.function) {
    args.score_mod.function(args.score_mod.state, scores, num_keys, batch, head, query, 1, 0, num_keys);
  }
  for (std::int64_t key = 0; key < num_keys; ++key) {
    if (!allowed(args, row, key)) {
      scores[key] = kBlocked<S>;
    } else if (args.bias.data) {
      // A bias of -inf blocks: adding it would let a NaN score through.
      const auto bias = static_cast<S>(args.bias(batch, head, query, key));
      scores[key] = bias == kBlocked<S> ? bias : scores[key] + bias;
    }
  }
}

/// out = softmax(scores) v for one row. `sums`: memory for the sums of a row. Returns the log-sum-exp.
template <class T>
Sum<T> attend_row(const AttentionArgs<T>& args, RowIndex row, const Sum<T>* scores, Sum<T>* sums) {
  using S = Sum<T>;
  const View<T, 1> out = args.out[row.batch][row.head][row.query];
  const std::int64_t num_keys = args.k.size(2), value_dim = args.v.size(3);
  const View<const T, 2> v = args.v[row.batch][row.head / (args.q.size(1) / args.k.size(1))];

  S row_max = kBlocked<S>, row_sum = S(0);
  for (std::int64_t key = 0; key < num_keys; ++key) row_max = max_or_nan(row_max, scores[key]);
  if (row_max == kBlocked<S>) {  // no allowed key: a row of zeros
    for (std::int64_t d = 0; d < value_dim; ++d) out(d) = T(0);
    return kBlocked<S>;
  }
  std::fill_n(sums, value_dim, S(0));
  for (std::int64_t key = 0; key < num_keys; ++key) {
    if (scores[key] == kBlocked<S>) continue;  // skipped, not multiplied by 0: v may hold NaN there
    const S weight = std::exp(scores[key] - row_max);
    row_sum += weight;
    for (std::int64_t d = 0; d < value_dim; ++d) sums[d] += weight * static_cast<S>(v(key, d));
  }
  for (std::int64_t d = 0; d < value_dim; ++d) out(d) = static_cast<T>(sums[d] / row_sum);
  return row_max + std::log(row_sum);
}

/// Bytes for one worker: a row of scores, and the sums of a row of the result.
template <class T>
std::size_t attention_worker_bytes(std::int64_t num_keys, std::int64_t value_dim) {
  return scratch_bytes<Sum<T>>(num_keys) + scratch_bytes<Sum<T>>(value_dim);
}

template <class T>
std::size_t attention_scratch(const AttentionArgs<T>& args, int threads) {
  return static_cast<std::size_t>(threads) * attention_worker_bytes<T>(args.k.size(2), args.v.size(3));
}

template <class T>
void attention(Executor& executor, const AttentionArgs<T>& args, std::byte* scratch) {
  const std::int64_t heads = args.q.size(1), num_queries = args.q.size(2), num_keys = args.k.size(2);
  const std::size_t bytes = attention_worker_bytes<T>(num_keys, args.v.size(3));
  executor.run(args.q.size(0) * heads * num_queries, [&](std::int64_t task, int worker) {
    const std::int64_t item = task / num_queries;
    const RowIndex row{item / heads, item % heads, task % num_queries};
    std::byte* memory = scratch + static_cast<std::size_t>(worker) * bytes;
    Sum<T>* const scores = take_scratch<Sum<T>>(memory, num_keys);
    score_row(args, row, scores);
    const Sum<T> lse = attend_row(args, row, scores, take_scratch<Sum<T>>(memory, args.v.size(3)));
    if (args.lse.data) args.lse(row.batch, row.head, row.query) = lse;
  });
}

template <class T>
double attention_executed_flops(const AttentionArgs<T>& args) {
  const bool masked = args.allow.data || args.blocks.block_q != 0;
  std::int64_t scores = 0;
  for (std::int64_t query = 0; query < args.q.size(2); ++query) {
    if (!masked) {
      scores += args.q.size(0) * args.q.size(1) * limit_of(args, query);
      continue;
    }
    for (std::int64_t batch = 0; batch < args.q.size(0); ++batch) {
      for (std::int64_t head = 0; head < args.q.size(1); ++head) {
        for (std::int64_t key = 0; key < args.k.size(2); ++key) {
          if (allowed(args, {batch, head, query}, key)) ++scores;
        }
      }
    }
  }
  return 2.0 * static_cast<double>(scores) * static_cast<double>(args.q.size(3) + args.v.size(3));
}

}  // namespace ennead::kernels::scalar
