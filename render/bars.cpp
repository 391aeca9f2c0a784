// SPDX-License-Identifier: Apache-2.0
#include "render/bars.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/numbers.h"
#include "harness/statistics.h"
#include "render/summary.h"
#include "render/table.h"

namespace ennead::render {
namespace {

using harness::Bar;
using harness::Result;

std::string bars(const Result& result, const Terminal& terminal) {
  const std::vector<std::size_t> best = winners(result);
  const double longest = longest_median(result);
  std::size_t name_width = 7, ratio_width = 6;
  for (const Bar& bar : result.results) {
    name_width = std::max(name_width, bar.slug.size());
    ratio_width = std::max(ratio_width, ratio_text(bar, result).size());
  }
  constexpr std::size_t kNumber = 2, kTime = 7, kSpread = 6, kMinBar = 8, kMaxBar = 60;
  const std::size_t fixed = kNumber + 1 + name_width + 2 + 1 + kTime + 1 + kSpread + 2 + ratio_width;
  const std::size_t width = static_cast<std::size_t>(terminal.width);
  const std::size_t bar_width = std::clamp(width > fixed ? width - fixed : 0, kMinBar, kMaxBar);

  const std::string title = fmt::format("{:>{}} {:<{}}  {:{}} {:>{}} {:>{}}  time / {}'s", "#", kNumber, "variant",
                                        name_width, "", bar_width, "median", kTime, "spread", kSpread, result.base);
  std::string text = styled(title, Style::faint, terminal) + "\n";
  for (std::size_t i = 0; i < result.results.size(); ++i) {
    const Bar& bar = result.results[i];
    const bool winner = std::find(best.begin(), best.end(), i) != best.end();
    const Style name_style = winner ? Style::bold : Style::plain;
    const bool measured = std::isfinite(bar.median_ns);
    const double share = longest > 0 && measured ? bar.median_ns / longest : 0;
    const std::string spread = std::isfinite(bar.spread)
                                   ? fmt::format("{}{:.1f}%", symbols(terminal).plus_minus, bar.spread * 100)
                                   : std::string("-");
    text += pad_left(std::to_string(bar.number), kNumber) + " " +
            styled(pad_right(bar.slug, name_width), name_style, terminal) + "  " +
            styled(pad_right(bar_text(share, bar_width, terminal), bar_width), winner ? Style::bar_best : Style::bar,
                   terminal) +
            " " + styled(pad_left(harness::duration(bar.median_ns), kTime), name_style, terminal) + " " +
            styled(pad_left(spread, kSpread), Style::faint, terminal) + "  " + ratio_text(bar, result) + "\n";
  }
  return text;
}

std::string costs(const Result& result, const Terminal& terminal) {
  Table table({{"#"}, {"variant", false}, {"of peak"}, {"computed"}, {"memory"}, {"plan"}, {"CPU"}, {"error"}});
  for (const Bar& bar : result.results) {
    const double computed = bar.executed_flops / bar.useful_flops;
    table.add({std::to_string(bar.number), bar.slug,
               Cell(harness::percent(bar.share_of_peak), bar.share_of_peak > 1 ? Style::bad : Style::plain),
               std::isfinite(computed) ? fmt::format("{:.2f}", computed) : "-",
               bar.peak_bytes < 0 ? "-" : harness::bytes(static_cast<double>(bar.peak_bytes)),
               harness::duration(bar.plan_ns), harness::percent(bar.cpu_share), harness::small(bar.max_abs_err)});
  }
  return table.terminal(terminal);
}

/// Rounded down, so that no more is claimed than there is: 94.9 is not 95.
std::string percent_floor(double share) {
  return std::isfinite(share) ? fmt::format("{:.0f}", std::floor(share * 100 + 1e-9)) : "0";
}

std::string ratio_legend(const Result& result) {
  if (!result.has_intervals()) {
    return fmt::format("times of a single round, which has neither a spread nor an interval; time / {}'s: their ratio",
                       result.base);
  }
  const std::string unsure =
      fmt::format(" (not in {}: that takes {} rounds)", percent_floor(harness::kConfidence), harness::values_needed());
  return fmt::format(
      "median and spread (half the distance of the quartiles) of {} rounds; time / {}'s: median of the ratios within a "
      "round, with the interval that holds the true one in {} of 100 cases{}",
      result.rounds(), result.base, percent_floor(result.ratio_coverage), result.enough_rounds() ? "" : unsure);
}

std::string legend(const Result& result, const Terminal& terminal) {
  const std::string text = fmt::format(
      "{}; of peak: useful FLOPs / time / {} (best of {} readings); computed: FLOPs done / FLOPs needed; memory: "
      "beyond "
      "weights and x; plan: packing the weights, once; error: largest against float64.",
      ratio_legend(result), harness::flop_rate(result.best_peak()), result.peak_flops.size());
  return styled(wrapped(text, static_cast<std::size_t>(terminal.width), 0), Style::faint, terminal) + "\n";
}

}  // namespace

std::string bar_text(double share, std::size_t width, const Terminal& terminal) {
  constexpr std::array<const char*, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double wanted = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  std::string text;
  if (!terminal.unicode) {
    text.assign(static_cast<std::size_t>(std::lround(wanted)), '#');
    return text.empty() && share > 0 ? "|" : text;
  }
  std::size_t eighths = static_cast<std::size_t>(std::lround(wanted * 8));
  if (eighths == 0 && share > 0) eighths = 1;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

std::string terminal_race(const Result& result, const Terminal& terminal) {
  const std::size_t width = static_cast<std::size_t>(terminal.width);
  std::string text = styled(wrapped(shape_card(result), width, 0), Style::bold, terminal) + "\n";
  text += wrapped(work_line(result.work), width, 0) + "\n" + wrapped(machine_line(result.machine), width, 0) + "\n\n";
  text += bars(result, terminal) + "\n";
  const Style standing = winners(result).empty() ? Style::plain : Style::good;
  text += styled(wrapped(winner_line(result), width, 0), standing, terminal) + "\n\n";
  text += costs(result, terminal) + "\n" + legend(result, terminal);
  for (const std::string& warning : result.warnings) {
    text += fmt::format("\n{}{}\n", styled("note: ", Style::bold, terminal), wrapped(warning, width, 6));
  }
  return text;
}

}  // namespace ennead::render
