// SPDX-License-Identifier: Apache-2.0
#include "traced_pass.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "measure/clock.h"
#include "stand.h"

namespace ennead::cli {
namespace {

template <class T>
TracedPass traced_pass(const VariantInfo& info, const Work& work, int passes) {
  const Stand<T> stand(work, work.context());
  const std::unique_ptr<Variant<T>> variant = stand.plan(info);
  const auto run = [&] { stand.run(info, variant.get()); };
  for (int warm_up = 0; warm_up < 2; ++warm_up) run();

  const measure::Clock now = measure::wall_clock();
  Arena& arena = stand.context.arena();
  std::vector<TracedPass> traced(static_cast<std::size_t>(passes));
  for (TracedPass& pass : traced) {
    arena.reset_peak();
    const std::size_t before = arena.bytes_in_use();
    stand.context.set_trace(&pass.trace);
    const std::int64_t start = now();
    run();
    pass.wall_ns = now() - start;
    stand.context.set_trace(nullptr);
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

}  // namespace ennead::cli
