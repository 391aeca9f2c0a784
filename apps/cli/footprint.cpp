// SPDX-License-Identifier: Apache-2.0
#include "footprint.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "render/numbers.h"
#include "stand.h"

namespace ennead::cli {
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
  const Stand<T> stand(work, context);
  const std::unique_ptr<Variant<T>> variant = stand.plan(info);

  Arena& arena = context.arena();
  const std::size_t before = arena.bytes_in_use(), planning = arena.peak_bytes();
  arena.reset_peak();
  stand.run(info, variant.get());
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
      raise(fmt::format("{} ({}) needs {} bytes ({}) for this shape: {}", info->number, info->slug, bytes,
                        render::bytes(static_cast<double>(bytes)), refusal.reason()));
    }
  }
}

}  // namespace ennead::cli
