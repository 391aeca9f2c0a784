// SPDX-License-Identifier: Apache-2.0
// Attention over strided tensors: the packing each worker does for itself, and the rows that the multiply unit would
// not get right.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ATTENTION_INL_H_
#undef ENNEAD_KERNELS_AMX_ATTENTION_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ATTENTION_INL_H_
#endif
#include "kernels/amx/attention_block-inl.h"
#include "kernels/simd/attention-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

/// Those of queries [query, query + rows) of a block that attend_block() left out, one by one, in plain float32. Which
/// these are, and so their bits, depends on what each of them sees alone.
inline void attend_exactly(const AttentionArgs<float>& args, const HeadMask<float>& mask, std::int64_t query,
                           std::int64_t rows, const AttentionScratch& scratch, AttentionWorker<float>& exact) {
  const std::int64_t heads_per_group = args.q.size(1) / args.k.size(1);
  const std::int64_t group = mask.batch * args.k.size(1) + mask.head / heads_per_group;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (is_computed(scratch, i)) continue;
    pack_group(args, group, mask.limit(query + i), exact);
    Feed<float> none;
    attend_queries(args, mask, query + i, 1, exact, none);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
