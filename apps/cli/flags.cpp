// SPDX-License-Identifier: Apache-2.0
#include "flags.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "usage_error.h"

namespace ennead::cli {
namespace {

constexpr const char* kGroup = "Work";
constexpr std::int64_t kMaxThreads = 1024;

CLI::Validator one_of(std::vector<std::string> words) {
  return CLI::Validator(
      [words](std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        return fmt::format("expected {}, got \"{}\"", fmt::join(words, " or "), text);
      },
      "");
}

Isa resolve_isa(const std::string& text) {
  if (text.empty()) return default_isa();
  const std::optional<Isa> isa = parse_isa(text);
  if (!isa) {
    std::vector<std::string_view> names;
    for (Isa each : supported_isas()) names.push_back(ennead::name(each));
    throw UsageError(fmt::format("--isa: expected one of {}, got \"{}\"", fmt::join(names, ", "), text));
  }
  if (const Refusal refusal = check_isa(*isa); !refusal.ok())
    throw UsageError(fmt::format("--isa: {}", refusal.reason()));
  return *isa;
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        std::int64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, problem] = std::from_chars(text.data(), end, value);
        if (problem == std::errc() && stop == end && value >= least && value <= most) return std::string();
        if (most == std::numeric_limits<std::int64_t>::max()) {
          return fmt::format("expected a whole number of at least {}, got \"{}\"", least, text);
        }
        return fmt::format("expected a whole number from {} to {}, got \"{}\"", least, most, text);
      },
      "");
}

CLI::Validator positive_seconds() {
  return CLI::Validator(
      [](std::string& text) {
        double value = 0;
        const char* end = text.data() + text.size();
        const auto [stop, problem] = std::from_chars(text.data(), end, value);
        if (problem == std::errc() && stop == end && value > 0 && std::isfinite(value)) return std::string();
        return fmt::format("expected a number of seconds above 0, got \"{}\"", text);
      },
      "");
}

void add_shape_flags(CLI::App& app, WorkFlags& flags) {
  Shape& shape = flags.shape;
  const auto size = [&](const char* flag, std::int64_t& value, const char* what) {
    app.add_option(flag, value, what)->check(whole_number(1))->type_name("N")->capture_default_str()->group(kGroup);
  };
  size("--batch", shape.batch, "sequences");
  size("--tokens", shape.num_tokens, "tokens in each");
  size("--d-in", shape.d_in, "width of x");
  size("--d-out", shape.d_out, "width of the result, over all heads; as --d-in unless given");
  size("--heads", shape.num_heads, "heads");
  app.add_flag("--causal,!--no-causal", shape.is_causal, "a token sees itself and what came before (the default)")
      ->group(kGroup);
  app.add_flag("--qkv-bias", shape.qkv_bias, "biases on the query, key and value projections")->group(kGroup);
  app.add_option("--dtype", flags.dtype, "float32 or float64")
      ->check(one_of({"float32", "float64"}))
      ->type_name("TYPE")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--threads", flags.threads, "as many as this process may use, unless given")
      ->check(whole_number(1, kMaxThreads))
      ->type_name("N")
      ->group(kGroup);
  app.add_option("--isa", flags.isa, "instruction set; the best this CPU has, unless given")
      ->type_name("NAME")
      ->group(kGroup);
  app.add_option("--seed", flags.seed, "of weights, x and the order of rounds")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
}

void add_pass_flag(CLI::App& app, WorkFlags& flags) {
  app.add_option("--pass", flags.pass, "forward or forward-backward")
      ->check(one_of({"forward", "forward-backward"}))
      ->type_name("PASS")
      ->capture_default_str()
      ->group(kGroup);
}

Work resolve(const CLI::App& app, const WorkFlags& flags) {
  Work work;
  work.shape = flags.shape;
  if (app.count("--d-out") == 0) work.shape.d_out = work.shape.d_in;
  work.pass = flags.pass == "forward" ? Pass::forward : Pass::forward_backward;
  work.precision = flags.dtype == "float32" ? Precision::float32 : Precision::float64;
  work.seed = flags.seed;
  work.threads = flags.threads == 0 ? available_threads() : flags.threads;
  work.isa = resolve_isa(flags.isa);
  if (const Refusal refusal = check_config(work.config()); !refusal.ok()) throw UsageError(refusal.reason());
  const std::size_t element = work.precision == Precision::float32 ? sizeof(float) : sizeof(double);
  for (std::int64_t width : {work.shape.d_in, work.shape.d_out}) {
    if (const Refusal refusal = check_sizes({work.shape.batch, work.shape.num_tokens, width}, element); !refusal.ok()) {
      throw UsageError(refusal.reason());
    }
  }
  return work;
}

std::vector<const VariantInfo*> resolve_variants(const std::vector<std::string>& names) {
  std::vector<const VariantInfo*> chosen;
  if (names.empty()) {
    for (const VariantInfo& info : variants()) chosen.push_back(&info);
    return chosen;
  }
  for (const std::string& each : names) {
    const VariantInfo& info = resolve_variant(each);
    if (std::find(chosen.begin(), chosen.end(), &info) == chosen.end()) chosen.push_back(&info);
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const VariantInfo* a, const VariantInfo* b) { return a->number < b->number; });
  return chosen;
}

const VariantInfo& resolve_variant(const std::string& name) {
  const VariantInfo* info = find_variant(name);
  if (info == nullptr) throw UsageError(unknown_variant(name));
  return *info;
}

void require_pass(const std::vector<const VariantInfo*>& chosen, Pass pass) {
  if (pass == Pass::forward) return;
  std::vector<int> able;
  for (const VariantInfo& info : variants()) {
    if (info.supports.gradient) able.push_back(info.number);
  }
  for (const VariantInfo* info : chosen) {
    if (info->supports.gradient) continue;
    throw UsageError(fmt::format("--pass forward-backward: expected variants that have gradients ({}), got {} ({})",
                                 fmt::join(able, ", "), info->number, info->slug));
  }
}

}  // namespace ennead::cli
