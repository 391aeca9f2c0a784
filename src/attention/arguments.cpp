// SPDX-License-Identifier: Apache-2.0
#include "attention/arguments.h"

#include <algorithm>
#include <limits>

namespace ennead::attention {

template <class T>
double visible_pairs(const kernels::AttentionArgs<T>& args) {
  const std::int64_t batch = args.q.size(0), heads = args.q.size(1), num_queries = args.q.size(2);
  // Items that repeat (stride 0) are counted once.
  const auto repeats = [&](std::size_t axis) {
    return (!args.allow.data || args.allow.strides[axis] == 0) && (!args.bias.data || args.bias.strides[axis] == 0);
  };
  const std::int64_t batches_counted = repeats(0) ? std::min<std::int64_t>(batch, 1) : batch;
  const std::int64_t heads_counted = repeats(1) ? std::min<std::int64_t>(heads, 1) : heads;
  const bool dense = args.allow.data || args.bias.data;
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < batches_counted; ++b) {
    for (std::int64_t h = 0; h < heads_counted; ++h) {
      for (std::int64_t q = 0; q < num_queries; ++q) {
        const std::int64_t end = causal_end(args, q);
        if (!dense) {
          pairs += end;
          continue;
        }
        for (std::int64_t k = 0; k < end; ++k) {
          const bool allowed = !args.allow.data || args.allow(b, h, q, k);
          const bool finite = !args.bias.data || args.bias(b, h, q, k) != -std::numeric_limits<T>::infinity();
          pairs += allowed && finite;
        }
      }
    }
  }
  const std::int64_t repeated =
      (batches_counted > 0 ? batch / batches_counted : 0) * (heads_counted > 0 ? heads / heads_counted : 0);
  return static_cast<double>(pairs) * static_cast<double>(repeated);
}

#define ENNEAD_INSTANTIATE(dtype, T, SumType) template double visible_pairs(const kernels::AttentionArgs<T>&);
ENNEAD_FOR_EACH_ELEMENT_TYPE(ENNEAD_INSTANTIATE)
#undef ENNEAD_INSTANTIATE

}  // namespace ennead::attention
