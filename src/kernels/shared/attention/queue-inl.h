// SPDX-License-Identifier: Apache-2.0
// How the work of attention is cut and handed out, and the sum of its FLOPs.

// clang-format off
#if defined(ENNEAD_KERNELS_SHARED_ATTENTION_QUEUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENNEAD_KERNELS_SHARED_ATTENTION_QUEUE_INL_H_
#undef ENNEAD_KERNELS_SHARED_ATTENTION_QUEUE_INL_H_
#else
#define ENNEAD_KERNELS_SHARED_ATTENTION_QUEUE_INL_H_
#endif
#include "kernels/shared/attention/masks-inl.h"
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

/// The sum of flops(mask, query, rows) over the strips of `strip_rows` queries of all heads.
template <class T, class StripFlops>
double sum_strip_flops(const AttentionArgs<T>& args, std::int64_t strip_rows, StripFlops flops) {
  // Without a block mask all heads do the same.
  const bool alike = args.blocks.block_q == 0;
  const std::int64_t batches = alike ? 1 : args.q.size(0), heads = alike ? 1 : args.q.size(1);
  const std::int64_t num_queries = args.q.size(2);
  double sum = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const HeadMask<T> mask{&args, args.k.size(2), batch, head};
      for (std::int64_t query = 0; query < num_queries; query += strip_rows) {
        sum += flops(mask, query, std::min(strip_rows, num_queries - query));
      }
    }
  }
  return alike ? sum * static_cast<double>(args.q.size(0) * args.q.size(1)) : sum;
}

}  // namespace ennead::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // ENNEAD_SIMD

#endif  // toggled per target
