// SPDX-License-Identifier: Apache-2.0
#include "render/summary.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "harness/numbers.h"
#include "harness/statistics.h"

namespace ennead::render {
namespace {

using harness::Bar;
using harness::Result;

bool overlaps(const Bar& a, const Bar& b) {
  return a.ratio_interval[0] <= b.ratio_interval[1] && b.ratio_interval[0] <= a.ratio_interval[1];
}

std::string count_word(std::size_t count) {
  constexpr std::array<const char*, 13> kWords{"none",  "one",   "two",  "three", "four",   "five",  "six",
                                               "seven", "eight", "nine", "ten",   "eleven", "twelve"};
  return count < kWords.size() ? kWords[count] : std::to_string(count);
}

}  // namespace

std::vector<std::size_t> winners(const Result& result) {
  std::vector<std::size_t> best;
  const std::vector<Bar>& bars = result.results;
  std::size_t fastest = bars.size();
  for (std::size_t i = 0; i < bars.size(); ++i) {
    if (!std::isfinite(bars[i].median_ns)) continue;
    if (fastest == bars.size() || bars[i].median_ns < bars[fastest].median_ns) fastest = i;
  }
  // Without an interval nothing says that the next round would not be another's.
  if (fastest == bars.size() || !result.has_intervals()) return best;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    if (i == fastest || overlaps(bars[i], bars[fastest])) best.push_back(i);
  }
  return best;
}

std::string plural(std::int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

double longest_median(const Result& result) {
  double longest = 0;
  for (const Bar& bar : result.results) {
    if (std::isfinite(bar.median_ns)) longest = std::max(longest, bar.median_ns);
  }
  return longest;
}

std::string output_shape(const harness::Shape& shape) {
  return fmt::format("[{}, {}, {}]", shape.batch, shape.num_tokens, shape.d_out);
}

std::string work_line(const harness::WorkRecord& work) {
  const harness::Shape& shape = work.shape;
  std::string line =
      fmt::format("{} pass of x [{}, {}, {}], {} of {}, {}, {}", work.pass, shape.batch, shape.num_tokens, shape.d_in,
                  plural(shape.num_heads, "head"), shape.d_out / std::max<std::int64_t>(shape.num_heads, 1),
                  shape.is_causal ? "causal" : "not causal", work.dtype);
  if (shape.qkv_bias) line += ", QKV bias";
  return line;
}

std::string machine_line(const harness::MachineRecord& machine) {
  return fmt::format("{}, {}, {}", machine.cpu, machine.isa, plural(machine.threads, "thread"));
}

std::string shape_card(const Result& result) {
  const std::string shape = output_shape(result.work.shape);
  if (result.results.size() == 1) return fmt::format("{} returns {}", result.results.front().slug, shape);
  const std::string all = result.results.size() == 2 ? "both" : "all " + count_word(result.results.size());
  return fmt::format("{} return {}; largest difference between any two {}", all, shape,
                     harness::small(result.largest_difference));
}

std::string winner_line(const Result& result) {
  const std::vector<std::size_t> best = winners(result);
  if (result.rounds() == 0) return "nothing was measured";
  if (best.empty()) return "no winner: one round cannot tell which is the fastest";
  std::vector<std::string> names;
  for (std::size_t i : best) names.push_back(fmt::format("{} {}", result.results[i].number, result.results[i].slug));
  const std::string unsure = result.enough_rounds() ? ""
                                                    : fmt::format("; {} rounds are too few to be sure, it takes {}",
                                                                  result.rounds(), harness::values_needed());
  if (best.size() > 1) {
    return fmt::format("joint winners: {} (their intervals overlap){}", fmt::join(names, ", "), unsure);
  }
  const Bar& bar = result.results[best.front()];
  std::string line = "fastest: " + names.front();
  if (bar.number != result.base && std::isfinite(bar.ratio_to_1)) {
    line += fmt::format(", {} times as fast as {}", harness::significant(1 / bar.ratio_to_1), result.base);
  }
  return line + unsure;
}

std::string capitalized(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string interval_text(const Bar& bar, const Result& result, const char* between) {
  if (!result.has_intervals() || !std::isfinite(bar.ratio_interval[0])) return "";
  return fmt::format("{:.3f}{}{:.3f}", bar.ratio_interval[0], between, bar.ratio_interval[1]);
}

std::string ratio_text(const Bar& bar, const Result& result) {
  if (bar.number == result.base) return "1";
  if (!std::isfinite(bar.ratio_to_1)) return "-";
  const std::string ratio = fmt::format("{:.3f}", bar.ratio_to_1), interval = interval_text(bar, result, ", ");
  return interval.empty() ? ratio : fmt::format("{} [{}]", ratio, interval);
}

}  // namespace ennead::render
