// SPDX-License-Identifier: Apache-2.0
// The rows of attention that the multiply unit would not get right.

// clang-format off
#if defined(ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_EXACT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_EXACT_ROWS_INL_H_
#undef ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_EXACT_ROWS_INL_H_
#else
#define ENNEAD_KERNELS_AMX_ATTENTION_FORWARD_EXACT_ROWS_INL_H_
#endif
#include "kernels/amx/attention/forward/block-inl.h"
#include "kernels/simd/attention/forward/worker-inl.h"
// clang-format on

#if ENNEAD_AMX
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE::amx {

using simd::attend_query;
using simd::AttentionWorker;

/// Those of queries [query, query + rows) of a block that attend_block() left out, one by one, by the vector kernels.
/// Which these are, and so their bits, depends on what each of them sees alone.
inline void attend_exactly(const AttentionArgs<float>& args, const HeadMask<float>& mask, std::int64_t query,
                           std::int64_t rows, const AttentionScratch& scratch, AttentionWorker<float>& exact) {
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!is_computed(scratch, i)) attend_query(args, mask, query + i, exact);
  }
}

}  // namespace ennead::kernels::HWY_NAMESPACE::amx
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_AMX

#endif  // toggled per target
