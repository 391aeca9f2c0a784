// SPDX-License-Identifier: Apache-2.0
#include "harness/footprint.h"

#include <algorithm>
#include <memory>

#include "harness/numbers.h"
#include "harness/workload.h"

namespace ennead::harness {
namespace {

/// Stands for `threads` threads where only their number matters: scratch memory is sized by it.
class AbsentExecutor final : public Executor {
 public:
  explicit AbsentExecutor(int threads) : threads_(threads) {}
  int num_threads() const noexcept override { return threads_; }
  void run(std::int64_t, Task) override {}

 private:
  int threads_;
};

template <class T>
Footprint dry_run(const VariantInfo& info, const Work& work) {
  Context::Options options;
  options.executor = std::make_shared<AbsentExecutor>(work.threads);
  options.isa = work.isa;
  options.arena.dry_run = true;
  const Context context(options);
  const Workload<T> workload(work, context);
  const std::unique_ptr<Variant<T>> variant = workload.plan(info);

  Arena& arena = context.arena();
  const std::size_t before = arena.bytes_in_use(), planning = arena.peak_bytes();
  arena.reset_peak();
  workload.run(info, variant.get());
  return {std::max(planning, arena.peak_bytes()), arena.peak_bytes() - before};
}

}  // namespace

Footprint footprint(const VariantInfo& info, const Work& work) {
  return work.precision == Precision::float32 ? dry_run<float>(info, work) : dry_run<double>(info, work);
}

void require_memory(const std::vector<const VariantInfo*>& chosen, const Work& work) {
  const Arena free_memory{Arena::Options{}};
  for (const VariantInfo* info : chosen) {
    const std::size_t bytes = footprint(*info, work).peak_bytes;
    if (const Refusal refusal = free_memory.check(bytes); !refusal.ok()) {
      raise(sentence(info->number, " (", info->slug, ") needs ", bytes, " bytes (",
                     harness::bytes(static_cast<double>(bytes)), ") for this shape: ", refusal.reason()));
    }
  }
}

}  // namespace ennead::harness
