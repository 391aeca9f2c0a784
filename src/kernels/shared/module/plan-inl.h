// SPDX-License-Identifier: Apache-2.0
// How the work of the module is cut, and its packed biases.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_MODULE_PLAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_MODULE_PLAN_INL_H_
#undef ENNEAD_KERNELS_SHARED_MODULE_PLAN_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_MODULE_PLAN_INL_H_
#endif
#include "kernels/shared/attention/geometry-inl.h"
// clang-format on

#if ENNEAD_SIMD
HWY_BEFORE_NAMESPACE();
namespace ennead::kernels::HWY_NAMESPACE {

/// The work of several threads: the last few heads are projected together first and kept, so that
/// their attention can be cut into chunks with which the workers finish together. All other heads
/// are whole pieces of work. Bits do not depend on the cuts.
struct ModulePlan {
  std::int64_t heads, shared, chunks, blocks;

  template <class T>
  ModulePlan(const ModuleArgs<T>& args, int threads)
      : heads(args.x.size(0) * args.num_heads),
        shared(threads > 1 ? std::min<std::int64_t>(heads, 2 * threads) : 0),
        blocks(ceil_div(args.x.size(1), kBlockQueries)) {
    chunks = shared == 0 ? 0 : std::clamp<std::int64_t>(16 * threads / shared, 1, std::max<std::int64_t>(1, blocks));
  }
  std::int64_t whole() const { return heads - shared; }
};

/// Biases [row0, row0 + count) times `factor`, filled up with zeros to `padded`.
template <class T>
void pack_bias(const T* bias, std::int64_t row0, std::int64_t count, std::int64_t padded, T factor, T* to) {
  for (std::int64_t n = 0; n < padded; ++n) to[n] = bias && n < count ? factor * bias[row0 + n] : T(0);
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
