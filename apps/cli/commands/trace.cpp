// SPDX-License-Identifier: Apache-2.0
// ennead trace N: what one pass is made of, operation by operation.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>

#include "commands/command.h"
#include "flags.h"
#include "harness/footprint.h"
#include "harness/numbers.h"
#include "harness/trace_lines.h"
#include "harness/traced_pass.h"
#include "render/summary.h"
#include "render/table.h"
#include "render/terminal.h"

namespace ennead::cli {
namespace {

using render::Cell;
using render::Style;

struct Flags {
  WorkFlags work;
  std::string variant;
};

std::vector<Cell> row(const harness::TraceLine& line, double whole_ns, Style style) {
  const std::string op = line.calls > 1 ? fmt::format("{} x{}", line.op, line.calls) : line.op;
  const double ns = static_cast<double>(line.nanoseconds);
  return {{line.where, style},
          {op, style},
          {line.executed_flops == 0 ? "-" : harness::flops(line.executed_flops), style},
          {line.bytes() == 0 ? "-" : harness::bytes(line.bytes()), style},
          {line.passes == 0 ? "-" : harness::significant(line.passes, 2), style},
          {harness::duration(ns), style},
          {harness::percent(ns / whole_ns), style}};
}

int trace(const CLI::App& app, const Flags& flags) {
  const VariantInfo& info = resolve_variant(flags.variant);
  const Work work = resolve(app, flags.work);
  require_pass({&info}, work.pass);
  require_memory({&info}, work);
  const harness::TracedPass pass = traced_pass(info, work);
  const std::vector<harness::TraceLine> lines = gather(pass.trace, work.shape);
  const harness::TraceLine sum = total(lines);
  const double whole_ns = static_cast<double>(pass.wall_ns);

  std::size_t costliest = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].nanoseconds > lines[costliest].nanoseconds) costliest = i;
  }
  render::Table table(
      {{"source line", false}, {"operation", false}, {"FLOPs"}, {"moved"}, {"T x T"}, {"time"}, {"share"}});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    table.add(row(lines[i], whole_ns, i == costliest ? Style::bold : Style::plain));
  }
  harness::TraceLine unexplained;
  unexplained.op = "unexplained";
  unexplained.calls = 1;
  unexplained.nanoseconds = std::max<std::int64_t>(pass.wall_ns - sum.nanoseconds, 0);
  table.add(row(unexplained, whole_ns, Style::faint));
  harness::TraceLine whole = sum;
  whole.op = "the whole pass";
  whole.calls = 1;
  whole.nanoseconds = pass.wall_ns;
  table.add(row(whole, whole_ns, Style::bold));

  const render::Terminal terminal = render::detect_terminal();
  const std::size_t width = static_cast<std::size_t>(terminal.width);
  const auto paragraph = [&](const std::string& text, Style style) {
    fmt::print("{}\n", render::styled(render::wrapped(text, width, 0), style, terminal));
  };
  paragraph(fmt::format("{} {}: {}", info.number, info.slug, info.change), Style::bold);
  paragraph(
      render::work_line({work.shape, std::string(name(work.pass)), std::string(name(work.precision)), work.seed}) +
          fmt::format(", {}, {} threads", ennead::name(work.isa), work.threads),
      Style::plain);
  fmt::print("\n{}\n", table.terminal(terminal));
  paragraph(
      fmt::format(
          "The result needs {}FLOPs, {}FLOPs were done; {} at the peak beyond weights and x; {}/s moved on average.",
          harness::flops(useful_flops(work.shape, work.pass)), harness::flops(sum.executed_flops),
          harness::bytes(static_cast<double>(pass.peak_bytes)), harness::bytes(sum.bytes() / (whole_ns * 1e-9))),
      Style::plain);
  paragraph(
      "moved: bytes the operations read and write, cached or not. T x T: how often the [T, T] matrix of all heads "
      "is read or written. unexplained: time between operations. The median of 5 traced passes.",
      Style::faint);
  return 0;
}

}  // namespace

Action trace_command(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("variant", flags->variant, "number or name of `ennead list`")->required();
  add_pass_flag(app, flags->work);
  add_shape_flags(app, flags->work);
  app.footer("Examples:\n  ennead trace 2\n  ennead trace fused_causal --tokens 4096 --batch 1 --threads 1");
  return [flags, &app] { return trace(app, *flags); };
}

}  // namespace ennead::cli
