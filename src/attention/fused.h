// SPDX-License-Identifier: Apache-2.0
// The call of the attention kernel that scaled_dot_product_attention() and flex_attention() share.
#pragma once

#include <cstdint>

#include "base/launch.h"
#include "base/scratch.h"
#include "ennead/attention.h"
#include "kernels/kernels.h"

namespace ennead::attention {

/// [batch, heads, num_queries, value_dim], in memory [batch, num_queries, heads, value_dim]: merging
/// the heads is then a change of view.
template <class T>
Tensor<T> make_output(const Tensor<T>& query, std::int64_t value_dim) {
  const std::int64_t batch = query.size(0), heads = query.size(1), num_queries = query.size(2);
  const auto tokens = Tensor<T>::uninitialized(query.context(), {batch, num_queries, heads, value_dim});
  return Tensor<T>(tokens.storage(), tokens.data(), {batch, heads, num_queries, value_dim},
                   {tokens.stride(0), tokens.stride(2), tokens.stride(1), tokens.stride(3)});
}

/// Allocates the result, runs the kernel on `args` (v, out and lse are filled in here) and reports.
/// @param visible_pairs () -> how many (batch, head, query, key) the result needs; asked under a trace
template <class T, class VisiblePairs>
AttentionResult<T> run_fused(base::Launch& launch, const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                             kernels::AttentionArgs<T> args, bool return_lse, VisiblePairs visible_pairs) {
  const Context& context = query.context();
  const kernels::Kernels<T>& kernel = kernels::kernels_for<T>(context.isa());
  AttentionResult<T> result;
  result.output = make_output(query, value.size(3));
  if (return_lse) result.lse = Tensor<Sum<T>>::uninitialized(context, {query.size(0), query.size(1), query.size(2)});
  launch.reads(query).reads(key).reads(value).writes(result.output);
  if (return_lse) launch.writes(result.lse);
  if (query.size(0) * query.size(1) * query.size(2) == 0) return result;

  args.v = value.template view<4>();
  args.out = result.output.template view<4>();
  if (return_lse) args.lse = result.lse.template view<3>();
  if (context.trace() != nullptr) {
    const auto dims = static_cast<double>(query.size(3) + value.size(3));
    if (context.dry_run()) {
      // There are no masks to look at: every pair that is not beyond the diagonal counts.
      kernels::AttentionArgs<T> unmasked = args;
      unmasked.allow = {};
      unmasked.bias = {};
      unmasked.blocks = {};
      const double all = kernel.attention_executed_flops(unmasked);
      launch.flops(all, all);
    } else {
      launch.flops(2.0 * dims * visible_pairs(), kernel.attention_executed_flops(args));
    }
  }
  Executor& executor = context.executor();
  const base::Scratch scratch(context, kernel.attention_scratch(args, executor.num_threads()));
  launch.run([&] { kernel.attention(executor, args, scratch.data()); });
  return result;
}

}  // namespace ennead::attention
