// SPDX-License-Identifier: Apache-2.0
#include "harness/race.h"

#include <algorithm>
#include <memory>
#include <string>

#include "harness/footprint.h"
#include "harness/limits.h"
#include "harness/machine.h"
#include "harness/noise.h"
#include "harness/rounds.h"
#include "harness/statistics.h"
#include "harness/workload.h"

namespace ennead::harness {
namespace {

/// One variant on its way through the race.
template <class T>
struct Entrant {
  const VariantInfo* info;
  std::unique_ptr<Variant<T>> variant;
  std::int64_t plan_ns;
};

template <class T>
Entrant<T> prepare(const VariantInfo& info, const Workload<T>& workload, const Clock& now) {
  const std::int64_t start = now();
  std::unique_ptr<Variant<T>> variant = workload.plan(info);
  return {&info, std::move(variant), now() - start};
}

Bar make_bar(const VariantInfo& info, const Samples& samples, const std::vector<double>& ratios, const Work& work,
             double peak) {
  Bar bar;
  bar.number = info.number;
  bar.slug = info.slug;
  bar.title = info.title;
  bar.samples_ns = samples.ns;
  const std::vector<double> times(samples.ns.begin(), samples.ns.end());
  bar.median_ns = median(times);
  bar.spread = spread(times);
  bar.ratio_to_1 = median(ratios);
  const Interval interval = median_interval(ratios);
  bar.ratio_interval = {interval.low, interval.high};
  bar.useful_flops = useful_flops(work.shape, work.pass);
  bar.share_of_peak = bar.useful_flops / (bar.median_ns * 1e-9) / peak;
  bar.cpu_share =
      static_cast<double>(samples.cpu_ns) / (static_cast<double>(samples.wall_ns) * static_cast<double>(work.threads));
  return bar;
}

template <class T>
Result race(const std::vector<const VariantInfo*>& chosen, const Work& work, const Verification& verification,
            const RaceOptions& options) {
  constexpr double kPeakSeconds = 0.003;  // long enough to fill a clock step, short beside any round
  Result result;
  result.work = {work.shape, std::string(name(work.pass)), std::string(name(work.precision)), work.seed};
  result.machine = machine_record(std::string(ennead::name(work.isa)), work.threads);
  result.build = options.build;
  result.base = chosen.front()->number;
  result.largest_difference = verification.largest_difference;

  const Workload<T> workload(work, work.context());
  RoundsOptions rounds_options;
  std::vector<Entrant<T>> entrants;
  for (const VariantInfo* info : chosen) {
    options.progress("planning " + std::string(info->slug));
    entrants.push_back(prepare(*info, workload, rounds_options.now));
  }
  std::vector<Contender> contenders;
  for (const Entrant<T>& entrant : entrants) {
    contenders.push_back({std::string(entrant.info->slug),
                          [&workload, &entrant] { workload.run(*entrant.info, entrant.variant.get()); }});
  }
  const auto read_peak = [&] {
    result.peak_flops.push_back(read_fma_peak(workload.context.executor(), work.isa, work.precision, kPeakSeconds));
  };
  rounds_options.seconds = options.seconds;
  rounds_options.max_rounds = options.max_rounds;
  rounds_options.min_rounds = options.min_rounds;
  rounds_options.warm_up_seconds = options.warm_up_seconds;
  rounds_options.seed = work.seed;
  rounds_options.stop = options.stop;
  rounds_options.progress = options.progress;
  rounds_options.around = read_peak;
  const Rounds rounds = run_rounds(contenders, rounds_options);

  result.interrupted = rounds.interrupted;
  const double peak = result.best_peak();
  for (std::size_t i = 0; i < entrants.size(); ++i) {
    const std::vector<double> ratios = paired_ratios(rounds, i, 0);
    Bar bar = make_bar(*chosen[i], rounds.samples[i], ratios, work, peak);
    bar.plan_ns = static_cast<double>(entrants[i].plan_ns);
    bar.peak_bytes = static_cast<std::int64_t>(footprint(*chosen[i], work).pass_bytes);
    bar.executed_flops = verification.verdicts[i].executed_flops;
    bar.max_abs_err = verification.verdicts[i].max_abs_err;
    bar.ok = verification.verdicts[i].ok;
    result.ratio_coverage = median_interval(ratios).coverage;
    result.results.push_back(std::move(bar));
  }
  result.warnings = noise_warnings(result);
  return result;
}

}  // namespace

Result race(const std::vector<const VariantInfo*>& chosen, const Work& work, const Verification& verification,
            const RaceOptions& options) {
  return work.precision == Precision::float32 ? race<float>(chosen, work, verification, options)
                                              : race<double>(chosen, work, verification, options);
}

}  // namespace ennead::harness
