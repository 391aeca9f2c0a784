// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/result.h"
#include "harness/statistics.h"

namespace ennead::harness {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? kUnknown : found->get<double>();
}

Json to_json(const Shape& shape) {
  return {{"batch", shape.batch},      {"num_tokens", shape.num_tokens}, {"d_in", shape.d_in},
          {"d_out", shape.d_out},      {"num_heads", shape.num_heads},   {"is_causal", shape.is_causal},
          {"qkv_bias", shape.qkv_bias}};
}

Shape shape_from(const Json& json) {
  Shape shape;
  json.at("batch").get_to(shape.batch);
  json.at("num_tokens").get_to(shape.num_tokens);
  json.at("d_in").get_to(shape.d_in);
  json.at("d_out").get_to(shape.d_out);
  json.at("num_heads").get_to(shape.num_heads);
  json.at("is_causal").get_to(shape.is_causal);
  json.at("qkv_bias").get_to(shape.qkv_bias);
  return shape;
}

Json to_json(const Bar& bar) {
  return {{"number", bar.number},
          {"slug", bar.slug},
          {"title", bar.title},
          {"samples_ns", bar.samples_ns},
          {"median_ns", number(bar.median_ns)},
          {"spread", number(bar.spread)},
          {"ratio_to_1", number(bar.ratio_to_1)},
          {"ratio_interval", Json::array({number(bar.ratio_interval[0]), number(bar.ratio_interval[1])})},
          {"share_of_peak", number(bar.share_of_peak)},
          {"useful_flops", number(bar.useful_flops)},
          {"executed_flops", number(bar.executed_flops)},
          {"peak_bytes", bar.peak_bytes < 0 ? Json(nullptr) : Json(bar.peak_bytes)},
          {"plan_ns", number(bar.plan_ns)},
          {"cpu_share", number(bar.cpu_share)},
          {"max_abs_err", number(bar.max_abs_err)},
          {"ok", bar.ok}};
}

Bar bar_from(const Json& json) {
  Bar bar;
  json.at("number").get_to(bar.number);
  json.at("slug").get_to(bar.slug);
  json.at("title").get_to(bar.title);
  json.at("samples_ns").get_to(bar.samples_ns);
  bar.median_ns = number_at(json, "median_ns");
  bar.spread = number_at(json, "spread");
  bar.ratio_to_1 = number_at(json, "ratio_to_1");
  if (const auto interval = json.find("ratio_interval"); interval != json.end() && interval->is_array()) {
    for (std::size_t end = 0; end < 2; ++end) {
      bar.ratio_interval[end] = interval->at(end).is_null() ? kUnknown : interval->at(end).get<double>();
    }
  }
  bar.share_of_peak = number_at(json, "share_of_peak");
  bar.useful_flops = number_at(json, "useful_flops");
  bar.executed_flops = number_at(json, "executed_flops");
  const double peak_bytes = number_at(json, "peak_bytes");
  bar.peak_bytes = std::isfinite(peak_bytes) ? static_cast<std::int64_t>(peak_bytes) : -1;
  bar.plan_ns = number_at(json, "plan_ns");
  bar.cpu_share = number_at(json, "cpu_share");
  bar.max_abs_err = number_at(json, "max_abs_err");
  bar.ok = json.value("ok", false);
  return bar;
}

Result parse(const Json& json) {
  if (const int version = json.at("schema_version").get<int>(); version != kSchemaVersion) {
    raise(sentence("expected schema_version ", kSchemaVersion, ", got ", version));
  }
  Result result;
  const Json& work = json.at("work");
  result.work.shape = shape_from(work.at("shape"));
  work.at("pass").get_to(result.work.pass);
  work.at("dtype").get_to(result.work.dtype);
  result.work.seed = work.value("seed", std::uint64_t{0});
  const Json& machine = json.at("machine");
  machine.at("cpu").get_to(result.machine.cpu);
  if (const auto caches = machine.find("caches"); caches != machine.end() && caches->is_object()) {
    result.machine.caches = {caches->value("l1d", std::int64_t{0}), caches->value("l2", std::int64_t{0}),
                             caches->value("l3", std::int64_t{0})};
  }
  result.machine.isa = machine.value("isa", "");
  machine.at("threads").get_to(result.machine.threads);
  result.machine.available_threads = machine.value("available_threads", 0);
  result.machine.os = machine.value("os", "");
  const Json& build = json.at("build");
  result.build = {build.value("commit", ""), build.value("compiler", ""), build.value("flags", "")};
  result.peak_flops = json.value("peak_flops", std::vector<double>{});
  result.base = json.value("base", 1);
  result.ratio_coverage = number_at(json, "ratio_coverage");
  result.largest_difference = number_at(json, "largest_difference");
  result.interrupted = json.value("interrupted", false);
  result.warnings = json.value("warnings", std::vector<std::string>{});
  for (const Json& bar : json.at("results")) result.results.push_back(bar_from(bar));
  return result;
}

}  // namespace

double Result::best_peak() const {
  return peak_flops.empty() ? 0 : *std::max_element(peak_flops.begin(), peak_flops.end());
}

std::size_t Result::rounds() const {
  std::size_t rounds = 0;
  for (const Bar& bar : results) {
    if (bar.samples_ns.empty()) continue;
    rounds = rounds == 0 ? bar.samples_ns.size() : std::min(rounds, bar.samples_ns.size());
  }
  return rounds;
}

bool Result::enough_rounds() const { return has_intervals() && ratio_coverage >= kConfidence; }

std::string to_json(const Result& result) {
  Json json{
      {"schema_version", kSchemaVersion},
      {"work",
       {{"shape", to_json(result.work.shape)},
        {"pass", result.work.pass},
        {"dtype", result.work.dtype},
        {"seed", result.work.seed}}},
      {"machine",
       {{"cpu", result.machine.cpu},
        {"caches",
         {{"l1d", result.machine.caches[0]}, {"l2", result.machine.caches[1]}, {"l3", result.machine.caches[2]}}},
        {"isa", result.machine.isa},
        {"threads", result.machine.threads},
        {"available_threads", result.machine.available_threads},
        {"os", result.machine.os}}},
      {"build", {{"commit", result.build.commit}, {"compiler", result.build.compiler}, {"flags", result.build.flags}}},
      {"peak_flops", result.peak_flops},
      {"base", result.base},
      {"rounds", result.rounds()},
      {"ratio_coverage", result.has_intervals() ? number(result.ratio_coverage) : Json(nullptr)},
      {"ratio_confidence", kConfidence},
      {"enough_rounds", result.enough_rounds()},
      {"largest_difference", number(result.largest_difference)},
      {"interrupted", result.interrupted},
      {"warnings", result.warnings},
      {"results", Json::array()}};
  for (const Bar& bar : result.results) json["results"].push_back(to_json(bar));
  return json.dump(1) + "\n";
}

Result result_from_json(const std::string& text) {
  try {
    return parse(Json::parse(text));
  } catch (const Json::exception& problem) {
    raise(sentence("expected a result file of `ennead bench --json`, got something else: ", problem.what()));
  }
}

}  // namespace ennead::harness
