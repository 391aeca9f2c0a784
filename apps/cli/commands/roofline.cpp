// SPDX-License-Identifier: Apache-2.0
// ennead roofline: what this machine could do at most, and how close each variant comes.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands/command.h"
#include "flags.h"
#include "harness/footprint.h"
#include "harness/numbers.h"
#include "harness/trace_lines.h"
#include "harness/traced_pass.h"
#include "progress.h"
#include "render/bars.h"
#include "render/summary.h"
#include "render/table.h"
#include "render/terminal.h"

namespace ennead::cli {
namespace {

using render::Style;
using render::Terminal;

struct Flags {
  WorkFlags work;
  std::vector<std::string> names;
};

struct Limits {
  double flops = 0;      ///< per second, the instruction set and threads of the work
  double bandwidth = 0;  ///< bytes per second, all threads of the work
};

double best_peak(Executor& executor, Isa isa, Precision precision) {
  double best = 0;
  for (int reading = 0; reading < 5; ++reading) {
    best = std::max(best, harness::read_fma_peak(executor, isa, precision, 0.02));
  }
  return best;
}

/// Several times the last cache, within what is reasonable to take.
std::size_t stream_bytes() {
  const std::size_t last_cache = static_cast<std::size_t>(std::max(cpu_caches().l3, 0LL));
  return std::clamp<std::size_t>(8 * last_cache, std::size_t{256} << 20, std::size_t{2} << 30);
}

Limits print_limits(const Work& work, Progress& progress, const Terminal& terminal) {
  progress.show("measuring what the machine can do");
  const std::shared_ptr<Executor> one = make_serial_executor(), all = make_thread_pool(work.threads);
  const std::string threads = fmt::format("{} threads", work.threads);
  render::Table table({{"limit", false}, {"1 thread"}, {threads}});
  Limits limits;
  for (Isa isa : supported_isas()) {
    const double single = best_peak(*one, isa, work.precision), together = best_peak(*all, isa, work.precision);
    if (isa == work.isa) limits.flops = together;
    table.add({fmt::format("{} multiply-adds, {}{}", ennead::name(isa), name(work.precision),
                           isa == work.isa ? " (used)" : ""),
               harness::flop_rate(single), harness::flop_rate(together)});
  }
  harness::ReadBandwidth stream(stream_bytes());
  const double single = stream.read(*one, 4);
  limits.bandwidth = stream.read(*all, 4);
  table.add({fmt::format("reading {} of memory", harness::bytes(static_cast<double>(stream_bytes()))),
             harness::bytes(single) + "/s", harness::bytes(limits.bandwidth) + "/s"});
  progress.clear();
  fmt::print("{}\n", table.terminal(terminal));
  return limits;
}

int roofline(const CLI::App& app, const Flags& flags) {
  const Work work = resolve(app, flags.work);
  const std::vector<const VariantInfo*> chosen = resolve_variants(flags.names);
  require_pass(chosen, work.pass);
  require_memory(chosen, work);
  const Terminal terminal = render::detect_terminal();
  const std::size_t width = static_cast<std::size_t>(terminal.width);
  Progress progress;
  fmt::print("{}\n\n",
             render::styled(
                 render::wrapped(
                     render::machine_line({cpu_name(), {}, std::string(ennead::name(work.isa)), work.threads, 0, ""}),
                     width, 0),
                 Style::bold, terminal));
  const Limits limits = print_limits(work, progress, terminal);

  const std::string work_text =
      render::work_line({work.shape, std::string(name(work.pass)), std::string(name(work.precision)), work.seed});
  fmt::print("{}\n", render::styled(render::wrapped(work_text, width, 0), Style::bold, terminal));
  render::Table table(
      {{"#"}, {"variant", false}, {"FLOPs/byte"}, {"bound by", false}, {"bound"}, {"measured"}, {"reached", false}});
  const double needed = useful_flops(work.shape, work.pass);
  for (const VariantInfo* info : chosen) {
    progress.show(fmt::format("tracing {}", info->slug));
    const harness::TracedPass pass = traced_pass(*info, work, 3);
    progress.clear();
    const harness::TraceLine sum = total(gather(pass.trace, work.shape));
    const double compute_ns = needed / limits.flops * 1e9, memory_ns = sum.bytes() / limits.bandwidth * 1e9;
    const double bound_ns = std::max(compute_ns, memory_ns), reached = bound_ns / static_cast<double>(pass.wall_ns);
    constexpr std::size_t kBar = 10;
    table.add({std::to_string(info->number), std::string(info->slug), harness::significant(needed / sum.bytes()),
               memory_ns > compute_ns ? "memory" : "FMA", harness::duration(bound_ns),
               harness::duration(static_cast<double>(pass.wall_ns)),
               render::Cell(fmt::format("{} {}", render::pad_right(render::bar_text(reached, kBar, terminal), kBar),
                                        harness::percent(reached)),
                            Style::bar)});
  }
  fmt::print("{}\n", table.terminal(terminal));
  const double ridge = limits.flops / limits.bandwidth;
  const std::string notes = fmt::format(
      "bound: the larger of needed FLOPs / peak and bytes / bandwidth; the two meet at {} FLOPs a byte. FLOPs are what "
      "the "
      "result needs ({}). Bytes are all that the operations read and write, as if nothing stayed in a cache: a "
      "variant that reaches more than 100% of a memory bound kept its intermediate results in the cache.",
      harness::significant(ridge), harness::flops(needed));
  fmt::print("{}\n", render::styled(render::wrapped(notes, width, 0), Style::faint, terminal));
  return 0;
}

}  // namespace

Action roofline_command(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("variants", flags->names, "numbers or names of `ennead list`; all unless given");
  add_pass_flag(app, flags->work);
  add_shape_flags(app, flags->work);
  app.footer("Examples:\n  ennead roofline\n  ennead roofline 1 2 10 --threads 1 --isa avx2");
  return [flags, &app] { return roofline(app, *flags); };
}

}  // namespace ennead::cli
