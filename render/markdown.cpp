// SPDX-License-Identifier: Apache-2.0
#include "render/markdown.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "ennead/error.h"
#include "harness/numbers.h"
#include "render/summary.h"
#include "render/table.h"

namespace ennead::render {
namespace {

std::string begin_marker(const std::string& name) { return fmt::format("<!-- {}:begin -->", name); }
std::string end_marker(const std::string& name) { return fmt::format("<!-- {}:end -->", name); }

}  // namespace

std::string markdown_race(const harness::Result& result, const Published& published) {
  Table table({{"#"},
               {"variant", false},
               {"in the notebook", false},
               {"median"},
               {fmt::format("time / {}'s", result.base)},
               {"of peak"},
               {"memory"},
               {"largest error"}});
  const std::vector<std::size_t> best = winners(result);
  for (std::size_t i = 0; i < result.results.size(); ++i) {
    const harness::Bar& bar = result.results[i];
    const std::size_t index = static_cast<std::size_t>(bar.number - 1);
    const bool winner = std::find(best.begin(), best.end(), i) != best.end();
    const std::string time = harness::duration(bar.median_ns);
    table.add({std::to_string(bar.number), fmt::format("`{}`", bar.slug),
               index < published.names.size() ? published.names[index] : "ours",
               winner ? fmt::format("**{}**", time) : time, ratio_text(bar, result),
               harness::percent(bar.share_of_peak),
               bar.peak_bytes < 0 ? "-" : harness::bytes(static_cast<double>(bar.peak_bytes)),
               harness::small(bar.max_abs_err)});
  }
  std::string text = capitalized(shape_card(result));
  text.append(".\n\n").append(table.markdown()).append("\n").append(capitalized(winner_line(result)));
  text.append(". The work: ").append(work_line(result.work));
  text.append(". The machine: ").append(machine_line(result.machine)).append(".\n");
  return text;
}

std::string replace_part(const std::string& document, const std::string& name, const std::string& content) {
  const std::string begin = begin_marker(name), end = end_marker(name);
  const std::size_t first = document.find(begin), last = document.find(end);
  if (first == std::string::npos || last == std::string::npos || last < first ||
      document.find(begin, first + 1) != std::string::npos || document.find(end, last + 1) != std::string::npos) {
    raise(sentence("expected ", begin, " and ", end, " once each and in this order, got a document without"));
  }
  std::string text = document.substr(0, first + begin.size());
  return text.append("\n").append(content).append(document, last, std::string::npos);
}

}  // namespace ennead::render
