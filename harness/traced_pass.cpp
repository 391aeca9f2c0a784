// SPDX-License-Identifier: Apache-2.0
#include "harness/traced_pass.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "harness/clock.h"
#include "harness/workload.h"

namespace ennead::harness {
namespace {

template <class T>
TracedPass traced_pass(const VariantInfo& info, const Work& work, int passes) {
  const Workload<T> workload(work, work.context());
  const std::unique_ptr<Variant<T>> variant = workload.plan(info);
  const auto run = [&] { workload.run(info, variant.get()); };
  for (int warm_up = 0; warm_up < 2; ++warm_up) run();

  const Clock now = wall_clock();
  Arena& arena = workload.context.arena();
  std::vector<TracedPass> traced(static_cast<std::size_t>(passes));
  for (TracedPass& pass : traced) {
    arena.reset_peak();
    const std::size_t before = arena.bytes_in_use();
    workload.context.set_trace(&pass.trace);
    const std::int64_t start = now();
    run();
    pass.wall_ns = now() - start;
    workload.context.set_trace(nullptr);
    pass.peak_bytes = arena.peak_bytes() - before;
  }
  std::sort(traced.begin(), traced.end(),
            [](const TracedPass& a, const TracedPass& b) { return a.wall_ns < b.wall_ns; });
  return std::move(traced[traced.size() / 2]);
}

}  // namespace

TracedPass traced_pass(const VariantInfo& info, const Work& work, int passes) {
  return work.precision == Precision::float32 ? traced_pass<float>(info, work, passes)
                                              : traced_pass<double>(info, work, passes);
}

}  // namespace ennead::harness
