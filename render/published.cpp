// SPDX-License-Identifier: Apache-2.0
#include "render/published.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ennead/error.h"
#include "harness/numbers.h"
#include "render/table.h"

namespace ennead::render {
namespace {

using Json = nlohmann::json;

std::string with_ratio(double ms, double first_ms) {
  if (!std::isfinite(ms)) return "-";
  const std::string time = harness::significant(ms);
  return std::isfinite(first_ms) ? fmt::format("{}  {:.2f}", time, ms / first_ms) : time;
}

double value(const PublishedSeries& series, std::size_t index) {
  return index < series.mean_ms.size() && series.mean_ms[index] ? *series.mean_ms[index] : harness::kUnknown;
}

}  // namespace

const PublishedSeries* Published::find(const std::string& id) const {
  const auto found =
      std::find_if(series.begin(), series.end(), [&](const PublishedSeries& each) { return each.id == id; });
  return found == series.end() ? nullptr : &*found;
}

Published parse_published(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Published published;
    json.at("source").get_to(published.source);
    json.at("work").get_to(published.work);
    json.at("names").get_to(published.names);
    json.at("caveats").get_to(published.caveats);
    for (const Json& each : json.at("series")) {
      PublishedSeries series{each.at("id"),   each.at("machine"), each.at("torch"),
                             each.at("pass"), each.at("method"),  {}};
      for (const Json& mean : each.at("mean")) {
        series.mean_ms.push_back(mean.is_null() ? std::nullopt : std::optional<double>(mean.get<double>()));
      }
      published.series.push_back(std::move(series));
    }
    return published;
  } catch (const Json::exception& problem) {
    raise(sentence("expected the published times, got something else: ", problem.what()));
  }
}

std::string published_table(const harness::Result& result, const Published& published, const Terminal& terminal) {
  const bool forward = result.work.pass == "forward";
  std::vector<const PublishedSeries*> shown;
  for (const char* id : {"m3-cpu-forward", forward ? "a100-forward" : "a100-forward-backward"}) {
    const PublishedSeries* series = published.find(id);
    if (series != nullptr && (forward || std::string(id) != "m3-cpu-forward")) shown.push_back(series);
  }
  std::vector<Column> columns{{"#"}, {"in the notebook", false}, {"here, ms"}};
  for (const PublishedSeries* series : shown) {
    columns.push_back({series->machine.find("M3") != std::string::npos ? "M3 CPU, ms" : "A100, ms"});
  }
  Table table(columns);
  double first_here = harness::kUnknown;
  for (const harness::Bar& bar : result.results) {
    if (bar.number == 1) first_here = bar.median_ns / 1e6;
  }
  for (const harness::Bar& bar : result.results) {
    const std::size_t index = static_cast<std::size_t>(bar.number - 1);
    const bool ours = index >= published.names.size();
    std::vector<Cell> row{std::to_string(bar.number),
                          ours ? fmt::format("- (ours: {})", bar.slug) : published.names[index],
                          with_ratio(bar.median_ns / 1e6, first_here)};
    for (const PublishedSeries* series : shown) {
      row.push_back({with_ratio(value(*series, index), value(*series, 0)), Style::faint});
    }
    table.add(std::move(row));
  }

  std::string text =
      styled("Published, not measured here (grey); after each time its ratio to 1", Style::bold, terminal);
  text.append("\n").append(table.terminal(terminal));
  std::string notes;
  const auto note = [&](const std::string& what) {
    notes.append("- ").append(wrapped(what, static_cast<std::size_t>(terminal.width), 2)).append("\n");
  };
  note(fmt::format("Source: {}.", published.source));
  for (const PublishedSeries* series : shown) {
    note(fmt::format("{}: torch {}, {}, {}.", series->machine, series->torch, series->pass, series->method));
  }
  if (!(result.work.shape == harness::Shape{}) || result.work.dtype != "float32") {
    note(
        fmt::format("They are for {}; the times here are for other work, so only the ratios compare.", published.work));
  }
  for (const std::string& caveat : published.caveats) note(caveat);
  return text + styled(notes, Style::faint, terminal);
}

}  // namespace ennead::render
