// SPDX-License-Identifier: Apache-2.0
// What is printed, drawn and written for a README.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "ennead/error.h"
#include "harness/numbers.h"
#include "harness/result.h"
#include "harness/statistics.h"
#include "render/bars.h"
#include "render/markdown.h"
#include "render/published.h"
#include "render/summary.h"
#include "render/svg.h"
#include "render/table.h"
#include "support/source_dir.h"

namespace ennead::render {
namespace {

harness::Bar bar(int number, const char* slug, double ms, double low, double high) {
  harness::Bar bar;
  bar.number = number;
  bar.slug = slug;
  bar.title = slug;
  bar.samples_ns.assign(9, static_cast<std::int64_t>(ms * 1e6));
  bar.median_ns = ms * 1e6;
  bar.spread = 0.012;
  bar.ratio_to_1 = (low + high) / 2;
  bar.ratio_interval = {low, high};
  bar.share_of_peak = 0.87;
  bar.useful_flops = 51e9;
  bar.executed_flops = 64e9;
  bar.peak_bytes = 403'000'000;
  bar.plan_ns = 4e6;
  bar.cpu_share = 0.98;
  bar.max_abs_err = 2.4e-6;
  bar.ok = true;
  return bar;
}

harness::Result race() {
  harness::Result result;
  result.machine = {"AMD EPYC 9B45 128-Core Processor", {}, "avx512", 2, 2, ""};
  result.peak_flops = {500e9, 510e9};
  result.ratio_coverage = 0.96;
  result.largest_difference = 3.1e-6;
  result.results = {bar(1, "stacked_heads", 412, 1, 1), bar(5, "fused_causal", 115, 0.278, 0.282),
                    bar(7, "module_need_weights", 212, 0.51, 0.52), bar(10, "fused_module", 114, 0.276, 0.279)};
  result.warnings = {"the machine became 7% slower between the first and the second half of the rounds"};
  return result;
}

Published published() {
  std::ifstream file(test::source_dir() + "/data/published.json");
  return parse_published({std::istreambuf_iterator<char>(file), {}});
}

Terminal terminal(int width, bool color, bool unicode) {
  Terminal terminal;
  terminal.width = width;
  terminal.color = color;
  terminal.unicode = unicode;
  return terminal;
}

// Kills a column that grows, and colours or blocks where they cannot be shown.
TEST(Bars, FitEightyPlainColumns) {
  const std::string text = terminal_race(race(), terminal(80, false, false)) + "\n" +
                           published_table(race(), published(), terminal(80, false, false));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  for (char c : text) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << static_cast<int>(c);
}

TEST(Bars, ColumnsStandUnderEachOther) {
  const std::string text = terminal_race(race(), terminal(100, false, true));
  std::istringstream lines(text);
  std::vector<std::size_t> ends;  // where "ms" ends, counted in columns
  for (std::string line; std::getline(lines, line);) {
    const std::size_t unit = line.find(" ms ");
    if (unit != std::string::npos && line.find("█") != std::string::npos) {
      ends.push_back(columns(std::string_view(line).substr(0, unit)));
    }
  }
  ASSERT_EQ(ends.size(), 4u);
  EXPECT_EQ(std::count(ends.begin(), ends.end(), ends[0]), 4);
}

TEST(Bars, AreProportional) {
  EXPECT_EQ(bar_text(1, 4, terminal(80, false, true)), "████");
  EXPECT_EQ(bar_text(0.5, 4, terminal(80, false, true)), "██");
  EXPECT_EQ(bar_text(0.40625, 4, terminal(80, false, true)), "█▋");
  EXPECT_EQ(bar_text(1e-9, 4, terminal(80, false, true)), "▏");
  EXPECT_EQ(bar_text(0.5, 4, terminal(80, false, false)), "##");
}

TEST(Bars, ColoursOnlyWhenWanted) {
  EXPECT_EQ(terminal_race(race(), terminal(80, false, true)).find('\x1b'), std::string::npos);
  EXPECT_NE(terminal_race(race(), terminal(80, true, true)).find('\x1b'), std::string::npos);
}

// Kills naming one winner where the measurement cannot tell two apart.
TEST(Standing, OverlappingIntervalsAreJointWinners) {
  harness::Result result = race();
  EXPECT_EQ(winners(result), (std::vector<std::size_t>{1, 3}));
  EXPECT_EQ(winner_line(result), "joint winners: 5 fused_causal, 10 fused_module (their intervals overlap)");
  result.results[1].ratio_interval = {0.2795, 0.282};
  EXPECT_EQ(winners(result), (std::vector<std::size_t>{3}));
  EXPECT_EQ(winner_line(result), "fastest: 10 fused_module, 3.60 times as fast as 1");
}

/// The race after as many rounds as given, the last of which may have been cut short.
harness::Result race_of(std::size_t rounds, bool cut_short = false) {
  harness::Result result = race();
  std::vector<double> values(rounds);
  const harness::Interval interval = harness::median_interval(values);
  result.ratio_coverage = interval.coverage;
  for (harness::Bar& bar : result.results) {
    bar.samples_ns.resize(rounds);
    if (rounds < 2) {
      bar.spread = harness::spread(values);
      bar.ratio_interval = {interval.low, interval.high};
    }
  }
  if (cut_short) result.results.front().samples_ns.push_back(1);
  return result;
}

bool contains(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// On one line, so that it does not matter where lines are broken.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Kills a winner after one round, in words, bold, colour or by the picture's colour, and an interval
// of no width. A result file of an earlier version holds such an interval: it is not believed.
TEST(Standing, OneRoundNamesNoWinnerAndShowsNoInterval) {
  harness::Result of_old_file = race_of(1);
  for (harness::Bar& bar : of_old_file.results) bar.ratio_interval = {bar.ratio_to_1, bar.ratio_to_1};
  for (const harness::Result& result : {race_of(1), race_of(1, true), of_old_file}) {
    EXPECT_TRUE(winners(result).empty());
    EXPECT_EQ(winner_line(result), "no winner: one round cannot tell which is the fastest");
    EXPECT_EQ(ratio_text(result.results.back(), result), "0.278");
    const std::string text = one_line(terminal_race(result, terminal(100, true, true)));
    for (const char* never : {"fastest:", "joint winners", "of 100 cases", "[0.", "nan", "\x1b[32m"}) {
      EXPECT_FALSE(contains(text, never)) << never << "\n" << text;
    }
    EXPECT_TRUE(contains(text, "times of a single round, which has neither a spread nor an interval"));
    const std::string svg = svg_race(result, published());
    for (const char* never : {"class=\"best\"", "best-text\"", "nan", "0.276 to", "0.278 to"}) {
      EXPECT_FALSE(contains(svg, never)) << never << "\n" << svg;
    }
    EXPECT_TRUE(contains(svg, "1 interleaved round;"));
    const std::string markdown = markdown_race(result, published());
    EXPECT_FALSE(contains(markdown, "**") || contains(markdown, "[0.")) << markdown;
    EXPECT_TRUE(contains(markdown, "No winner: one round cannot tell"));
  }
  harness::Result nothing = race_of(0);
  for (harness::Bar& bar : nothing.results) bar.median_ns = bar.ratio_to_1 = harness::kUnknown;
  EXPECT_EQ(winner_line(nothing), "nothing was measured");
  EXPECT_FALSE(contains(svg_race(nothing, published()), "nan"));
}

// Kills a winner of three rounds in the words of one of six.
TEST(Standing, FewRoundsAreSaidToBeFew) {
  harness::Result result = race_of(3);
  result.results[1].ratio_interval = {0.2795, 0.282};
  EXPECT_EQ(winner_line(result),
            "fastest: 10 fused_module, 3.60 times as fast as 1; 3 rounds are too few to be sure, it takes 6");
  EXPECT_TRUE(contains(winner_line(race_of(5)), "overlap); 5 rounds are too few to be sure"));
  EXPECT_TRUE(contains(one_line(terminal_race(race_of(5), terminal(100, false, true))),
                       "in 93 of 100 cases (not in 95: that takes 6 rounds)"));
  EXPECT_FALSE(contains(winner_line(race_of(6)), "too few"));
  EXPECT_TRUE(contains(one_line(terminal_race(race_of(6), terminal(100, false, true))), "in 96 of 100 cases; of peak"));
}

TEST(Standing, ShapeCard) {
  EXPECT_EQ(shape_card(race()), "all four return [8, 1024, 768]; largest difference between any two 3.1e-06");
}

TEST(Published, IsWhatTheNotebookSays) {
  const Published data = published();
  ASSERT_NE(data.find("m3-cpu-forward"), nullptr);
  EXPECT_EQ(data.find("m3-cpu-forward")->mean_ms.at(5), 99.5);
  EXPECT_FALSE(data.find("m3-cpu-forward")->mean_ms.at(8).has_value());
  EXPECT_EQ(data.find("a100-forward")->mean_ms.at(4), 1.10);
  EXPECT_EQ(data.names.size(), 9u);
  EXPECT_EQ(data.find("nothing"), nullptr);
  const std::string text = published_table(race(), data, terminal(120, false, true));
  EXPECT_NE(text.find("not measured here"), std::string::npos);
  EXPECT_NE(text.find("boolean mask"), std::string::npos);  // the caveats
}

// A reader of XML is not at hand: tags must balance and text must be escaped.
TEST(Svg, IsWellFormed) {
  harness::Result result = race();
  result.machine.cpu = "A <CPU> & \"more\"";
  const std::string svg = svg_race(result, published());
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find("A &lt;CPU&gt; &amp; &quot;more&quot;"), std::string::npos);
  const auto count = [&](const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<text"), count("</text>"));
  EXPECT_EQ(count("<svg"), count("</svg>"));
  EXPECT_EQ(count("nan"), 0u);
  EXPECT_NE(svg.find("prefers-color-scheme: dark"), std::string::npos);
  EXPECT_NE(svg.find("PyTorch MHA class defaults"), std::string::npos);
}

TEST(Markdown, ReplacesOnlyBetweenTheMarkers) {
  const std::string document = "before\n<!-- bars:begin -->\nold\n<!-- bars:end -->\nafter\n";
  EXPECT_EQ(replace_part(document, "bars", "new\n"), "before\n<!-- bars:begin -->\nnew\n<!-- bars:end -->\nafter\n");
  EXPECT_THROW(replace_part("no markers", "bars", ""), Error);
  EXPECT_THROW(replace_part(document + document, "bars", ""), Error);
  EXPECT_NE(markdown_race(race(), published()).find("| 10 | `fused_module` | ours | **114 ms** |"), std::string::npos);
}

TEST(Numbers, HaveThreeDigitsAndAUnit) {
  EXPECT_EQ(harness::duration(412e6), "412 ms");
  EXPECT_EQ(harness::duration(4.125e6), "4.12 ms");
  EXPECT_EQ(harness::duration(999.96e6), "1.00 s");
  EXPECT_EQ(harness::duration(harness::kUnknown), "-");
  EXPECT_EQ(harness::bytes(403e6), "403 MB");
  EXPECT_EQ(harness::bytes(0), "0 B");
  EXPECT_EQ(harness::percent(0.8712), "87%");
  EXPECT_EQ(harness::percent(0.0123), "1.2%");
  EXPECT_EQ(harness::small(0), "0");
  EXPECT_EQ(harness::flop_rate(261e9), "261 GFLOP/s");
}

TEST(Text, CountsAndCutsByCharacters) {
  EXPECT_EQ(columns("±1%"), 3u);
  EXPECT_EQ(cut("abcdef", 4, terminal(80, false, false)), "abc~");
  EXPECT_EQ(cut("±±±±", 3, terminal(80, false, true)), "±±…");
  EXPECT_EQ(wrapped("one two three", 8, 0), "one two\nthree");
  EXPECT_EQ(wrapped("one two", 6, 2), "one\n  two");
}

}  // namespace
}  // namespace ennead::render
