// SPDX-License-Identifier: Apache-2.0
#include "render/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "harness/numbers.h"
#include "harness/statistics.h"
#include "render/summary.h"

namespace ennead::render {
namespace {

using harness::Bar;
using harness::Result;

// Lengths in user units; the picture scales.
constexpr double kWidth = 880, kMargin = 28, kHead = 104, kRow = 44, kFoot = 74;
constexpr double kNameX = 54, kBarX = 298, kBarWidth = 360, kBarHeight = 22, kRatioX = kWidth - kMargin;

/// A card of its own colour: pages may be light while the reader's system is dark.
constexpr std::string_view kStyle = R"(<style>
  svg { font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
  .card { fill: #ffffff; stroke: #d8dee6; }
  .title { fill: #17202b; font-size: 19px; font-weight: 650; }
  .text { fill: #46525f; font-size: 13px; }
  .name { fill: #17202b; font-size: 14px; font-weight: 600; }
  .note { fill: #5d6976; font-size: 11.5px; }
  .value { fill: #17202b; font-size: 13.5px; font-weight: 600; font-variant-numeric: tabular-nums; }
  .inside { fill: #ffffff; font-size: 11.5px; }
  .track { fill: #eef1f5; }
  .bar { fill: #3b6fc4; }
  .best { fill: #1d7f4f; }
  .best-text { fill: #1a7046; }
  .whisker { stroke: #17202b; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #10161d; stroke: #2b3541; }
    .title, .name, .value { fill: #eaf0f6; }
    .text { fill: #b3bfcb; }
    .note { fill: #95a2b0; }
    .inside { fill: #08101a; }
    .track { fill: #1a222c; }
    .bar { fill: #7aa7ee; }
    .best { fill: #56c490; }
    .best-text { fill: #6fd3a3; }
    .whisker { stroke: #eaf0f6; }
  }
</style>
)";

std::string escape(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string text_at(double x, double y, std::string_view kind, std::string_view text,
                    std::string_view anchor = "start") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y, kind, anchor,
                     escape(text));
}

std::string rectangle(double x, double y, double width, double height, std::string_view kind, double radius) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\" class=\"{}\"/>\n", x, y,
      std::max(width, 1.0), height, radius, kind);
}

/// The end of the longest bar or whisker.
double longest_time(const Result& result) {
  double longest = longest_median(result);
  for (const Bar& bar : result.results) {
    if (bar.samples_ns.empty()) continue;
    longest = std::max(longest, harness::quantile({bar.samples_ns.begin(), bar.samples_ns.end()}, 0.75));
  }
  return longest;
}

/// From the lower to the upper quartile of the samples, where they are far enough apart to be seen.
std::string whisker(const Bar& bar, double scale, double middle) {
  const std::vector<double> samples(bar.samples_ns.begin(), bar.samples_ns.end());
  if (samples.empty()) return "";
  const double low = kBarX + scale * harness::quantile(samples, 0.25);
  const double high = kBarX + scale * harness::quantile(samples, 0.75);
  if (high - low < 4) return "";
  return fmt::format(
      "<path class=\"whisker\" d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}V{4:.1f}M{1:.1f} "
      "{3:.1f}V{4:.1f}\"/>\n",
      low, high, middle, middle - 4, middle + 4);
}

std::string row(const Result& result, const Published& published, std::size_t index, bool winner, double scale) {
  const Bar& bar = result.results[index];
  const double top = kHead + kRow * static_cast<double>(index), middle = top + kRow / 2;
  const std::size_t published_index = static_cast<std::size_t>(bar.number - 1);
  const bool ours = published_index >= published.names.size();

  std::string out = text_at(kNameX - 10, middle - 1, "note", std::to_string(bar.number), "end");
  out += text_at(kNameX, middle - 1, "name", bar.slug);
  out += text_at(kNameX, middle + 14, "note", ours ? "ours" : std::string_view(published.names[published_index]));
  if (!std::isfinite(bar.median_ns)) return out + text_at(kBarX, middle + 4, "note", "not measured");

  const double length = scale * bar.median_ns;
  out += rectangle(kBarX, middle - kBarHeight / 2, kBarWidth, kBarHeight, "track", 4);
  out += rectangle(kBarX, middle - kBarHeight / 2, length, kBarHeight, winner ? "best" : "bar", 4);
  const std::string share = harness::percent(bar.share_of_peak) + " of peak";
  constexpr double kCharacter = 6.2;  // of 11.5px text, on the wide side
  if (std::isfinite(bar.share_of_peak) && length > kCharacter * static_cast<double>(share.size()) + 14) {
    out += text_at(kBarX + 8, middle + 4, "inside", share);
  }
  out += whisker(bar, scale, middle);
  out += text_at(kBarX + kBarWidth + 10, middle + 5, winner ? "value best-text" : "value",
                 harness::duration(bar.median_ns));
  const bool base = bar.number == result.base;
  out += text_at(kRatioX, middle - 1, winner ? "value best-text" : "value",
                 base                            ? "1"
                 : std::isfinite(bar.ratio_to_1) ? fmt::format("{:.3f}", bar.ratio_to_1)
                                                 : "-",
                 "end");
  const std::string interval = base ? "the measure" : interval_text(bar, result, " to ");
  if (!interval.empty()) out += text_at(kRatioX, middle + 14, "note", interval, "end");
  return out;
}

}  // namespace

std::string svg_race(const Result& result, const Published& published) {
  const double height = kHead + kRow * static_cast<double>(result.results.size()) + kFoot;
  const double longest = longest_time(result), scale = longest > 0 ? kBarWidth / longest : 0;
  const std::vector<std::size_t> best = winners(result);

  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" aria-labelledby=\"race-title race-text\">\n"
      "<title id=\"race-title\">Times of the ten variants</title>\n<desc id=\"race-text\">{2}. {3}.</desc>\n",
      kWidth, height, escape(shape_card(result)), escape(winner_line(result)));
  out += kStyle;
  out += fmt::format("<rect x=\"0.5\" y=\"0.5\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"10\" class=\"card\"/>\n",
                     kWidth - 1, height - 1);
  out += text_at(kMargin, 40, "title", capitalized(shape_card(result)));
  out += text_at(kMargin, 62, "text", capitalized(work_line(result.work)));
  out += text_at(kBarX, kHead - 8, "note", "median time, the shorter the better");
  out += text_at(kRatioX, kHead - 8, "note", fmt::format("time / {}'s", result.base), "end");
  for (std::size_t i = 0; i < result.results.size(); ++i) {
    out += row(result, published, i, std::find(best.begin(), best.end(), i) != best.end(), scale);
  }
  const double foot = height - kFoot;
  out += text_at(kMargin, foot + 28, best.empty() ? "value" : "value best-text", capitalized(winner_line(result)));
  out += text_at(kMargin, foot + 50, "note",
                 fmt::format("{}; {}; peak {} ({})", machine_line(result.machine),
                             plural(static_cast<std::int64_t>(result.rounds()), "interleaved round"),
                             harness::flop_rate(result.best_peak()), result.machine.isa));
  return out + "</svg>\n";
}

}  // namespace ennead::render
