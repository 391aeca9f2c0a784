// SPDX-License-Identifier: Apache-2.0
#include "ennead/ops.h"

namespace ennead {

Tensor<bool> causal_mask(const Context& context, std::int64_t n) {
  auto mask = Tensor<bool>::uninitialized(context, {n, n});
  if (context.dry_run()) return mask;
  context.executor().run(n, [&](std::int64_t query, int) {
    for (std::int64_t key = 0; key < n; ++key) mask.data()[query * n + key] = key > query;
  });
  return mask;
}

}  // namespace ennead
