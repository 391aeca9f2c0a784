// SPDX-License-Identifier: Apache-2.0
// ennead run: a variant over tensors in files, and weights from one layout into another.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands/command.h"
#include "commands/run_job.h"
#include "ennead/weight_files.h"
#include "flags.h"
#include "interrupt.h"
#include "io/file.h"
#include "io/text.h"
#include "progress.h"
#include "usage_error.h"

namespace ennead::cli {
namespace {

struct Flags {
  WorkFlags work;
  std::string variant, input, weights, output, attn_weights;
  std::string mask, mask_means, key_padding_mask, key_padding_means;
  bool per_head = false;
  std::string prefix, layout;
  std::string convert, to, to_prefix;
  std::int64_t kv_heads = 0;
};

constexpr const char* kExamples = R"(Examples:
  ennead run --variant 5 --input x.npy --weights w.safetensors --heads 12 --output y.npy
  ennead run --variant 7 --input x.npy --weights model.safetensors --prefix h.0.attn --heads 12 \
             --output y.npy --attn-weights a.npy --mask m.npy --mask-means allow
  ennead run --weights model.safetensors --prefix h.0.attn --heads 12 --convert w.safetensors --to split
x is [batch, num_tokens, d_in]. Sizes come from the files; shape flags that are given must agree with them.
docs/files.md tells the formats and the layouts of weights.)";

std::string layout_names() {
  std::vector<std::string_view> names;
  for (const WeightLayout layout : weight_layouts()) names.push_back(name(layout));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::optional<WeightLayout> resolve_layout(const char* flag, const std::string& text) {
  if (text.empty()) return {};
  const std::optional<WeightLayout> layout = parse_weight_layout(text);
  if (!layout)
    throw UsageError(fmt::format("{}: expected one of {}, got {}", flag, layout_names(), io::in_quotes(text)));
  return layout;
}

std::optional<MaskMeaning> resolve_meaning(const char* flag, const std::string& text) {
  if (text.empty()) return {};
  if (text == "allow") return MaskMeaning::allow;
  if (text == "block") return MaskMeaning::block;
  throw UsageError(fmt::format("{}: expected allow or block, got {}", flag, io::in_quotes(text)));
}

void require_given(const CLI::App& app, std::initializer_list<const char*> flags) {
  std::vector<std::string> missing;
  for (const char* flag : flags) {
    if (app.count(flag) == 0) missing.emplace_back(flag);
  }
  if (!missing.empty()) throw UsageError(fmt::format("expected {}, got none", fmt::join(missing, ", ")));
}

/// @param expected what the flags need, or cannot stand beside
void require_absent(const CLI::App& app, std::initializer_list<const char*> flags, const char* expected) {
  for (const char* flag : flags) {
    if (app.count(flag) > 0) throw UsageError(fmt::format("{}: expected {}", flag, expected));
  }
}

/// An option is refused before anything is read when the variant cannot honour it.
void require_supported(const VariantInfo& chosen, const char* flag, bool Supports::*feature) {
  if (chosen.supports.*feature) return;
  std::vector<int> able;
  for (const VariantInfo& info : variants()) {
    if (info.supports.*feature) able.push_back(info.number);
  }
  throw UsageError(fmt::format("{}: expected a variant that takes it ({}), got {} ({})", flag, fmt::join(able, ", "),
                               chosen.number, chosen.slug));
}

/// Nothing is written over a file that is read, or over another result, by whatever path both are named.
void require_own_file(const char* flag, const std::string& path,
                      std::initializer_list<std::pair<const char*, const std::string&>> others) {
  for (const auto& [other_flag, other] : others) {
    if (path.empty() || other.empty() || !io::same_target(path, other)) continue;
    throw UsageError(
        fmt::format("{}: expected another file than {}, got {} for both", flag, other_flag, io::in_quotes(path)));
  }
}

WeightSource resolve_source(const CLI::App& app, const Flags& flags) {
  WeightSource source{flags.prefix, {}, resolve_layout("--layout", flags.layout)};
  if (app.count("--heads") > 0) source.num_heads = flags.work.shape.num_heads;
  return source;
}

RunJob resolve_job(const CLI::App& app, const Flags& flags) {
  require_given(app, {"--variant", "--input", "--weights", "--output"});
  require_absent(app, {"--to", "--kv-heads", "--to-prefix"}, "--convert beside it, got none");
  RunJob job;
  job.variant = &resolve_variant(flags.variant);
  job.input = flags.input;
  job.weights = flags.weights;
  job.output = flags.output;
  job.attn_weights = flags.attn_weights;
  job.mask = {flags.mask, resolve_meaning("--mask-means", flags.mask_means)};
  // Its name says what true means, as nn.MultiheadAttention's does: this key is padding.
  job.key_padding_mask = {flags.key_padding_mask,
                          resolve_meaning("--key-padding-means", flags.key_padding_means).value_or(MaskMeaning::block)};
  job.per_head = flags.per_head;
  job.source = resolve_source(app, flags);
  if (flags.attn_weights.empty()) require_absent(app, {"--per-head"}, "--attn-weights beside it, got none");
  if (flags.mask.empty()) require_absent(app, {"--mask-means"}, "--mask beside it, got none");
  if (flags.key_padding_mask.empty()) {
    require_absent(app, {"--key-padding-means"}, "--key-padding-mask beside it, got none");
  }
  if (!flags.mask.empty()) require_supported(*job.variant, "--mask", &Supports::attn_mask);
  if (!flags.key_padding_mask.empty()) {
    require_supported(*job.variant, "--key-padding-mask", &Supports::key_padding_mask);
  }
  if (!flags.attn_weights.empty()) {
    require_supported(*job.variant, "--attn-weights", &Supports::need_weights);
    require_own_file("--attn-weights", flags.attn_weights, {{"--output", flags.output}});
  }
  for (const auto& [flag, path] :
       {std::pair<const char*, const std::string&>("--output", flags.output), {"--attn-weights", flags.attn_weights}}) {
    require_own_file(flag, path,
                     {{"--input", flags.input},
                      {"--weights", flags.weights},
                      {"--mask", flags.mask},
                      {"--key-padding-mask", flags.key_padding_mask}});
  }

  const Shape& shape = flags.work.shape;
  const std::pair<const char*, std::int64_t> given[] = {
      {"--batch", shape.batch}, {"--tokens", shape.num_tokens}, {"--d-in", shape.d_in},
      {"--d-out", shape.d_out}, {"--heads", shape.num_heads},   {"--qkv-bias", shape.qkv_bias ? 1 : 0}};
  for (const auto& [flag, value] : given) {
    if (app.count(flag) > 0) job.expected.emplace_back(flag, value);
  }
  WorkFlags without_shape = flags.work;
  without_shape.shape = {};
  job.work = resolve(app, without_shape);
  job.is_causal = shape.is_causal;
  return job;
}

int compute(const CLI::App& app, const Flags& flags) {
  const RunJob job = resolve_job(app, flags);
  const InterruptFlag interrupt;
  Progress progress;
  RunHooks hooks;
  hooks.stop = InterruptFlag::raised;
  hooks.progress = [&](const std::string& what) { progress.show(what); };
  hooks.warn = [&](const std::string& what) {
    progress.clear();
    fmt::print(stderr, "ennead: warning: {}\n", what);
  };
  // What is computed follows what is given, unless told.
  const bool wide = app.count("--dtype") > 0 ? job.work.precision == Precision::float64
                                             : read_npy_info(job.input).dtype == DType::float64;
  const bool done = wide ? run_job<double>(job, hooks) : run_job<float>(job, hooks);
  progress.clear();
  if (!done) {
    fmt::print(stderr, "ennead: interrupted; nothing was written\n");
    return 1;
  }
  fmt::print("wrote {}\n", job.output);
  if (!job.attn_weights.empty()) fmt::print("wrote {}\n", job.attn_weights);
  return 0;
}

int convert(const CLI::App& app, const Flags& flags) {
  require_given(app, {"--weights", "--to"});
  require_absent(app,
                 {"--variant", "--input", "--output", "--attn-weights", "--per-head", "--mask", "--mask-means",
                  "--key-padding-mask", "--key-padding-means", "--batch", "--tokens", "--d-in", "--d-out", "--causal",
                  "--qkv-bias", "--dtype", "--threads", "--isa", "--seed"},
                 "a call without --convert, which computes nothing, got both");
  require_own_file("--convert", flags.convert, {{"--weights", flags.weights}});
  WeightTarget target{*resolve_layout("--to", flags.to), flags.to_prefix, {}};
  if (flags.kv_heads > 0) target.kv_heads = flags.kv_heads;
  // Takes a moment only: an interrupt lets it end rather than leave a piece.
  const InterruptFlag interrupt;
  const WeightFileInfo info = convert_weights(flags.weights, resolve_source(app, flags), flags.convert, target);
  for (const std::string& note : info.notes) fmt::print(stderr, "ennead: warning: {}\n", note);
  fmt::print("wrote {}: {}, {} heads, from {} to {}\n", flags.convert, name(info.dtype), info.num_heads,
             name(info.layout), name(target.layout));
  return 0;
}

}  // namespace

Action run_command(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  const auto text = [&](const char* flag, std::string& value, const char* what, const char* type) {
    app.add_option(flag, value, what)->type_name(type);
  };
  text("--variant", flags->variant, "number or name of `ennead list`", "N");
  text("--input", flags->input, "x: .npy, [batch, num_tokens, d_in]", "FILE");
  text("--weights", flags->weights, "the module's weights: .safetensors, in any layout", "FILE");
  text("--output", flags->output, "where the result goes: .npy, [batch, num_tokens, d_out]", "FILE");
  text("--attn-weights", flags->attn_weights, "where the attention weights go, their mean over heads: .npy", "FILE");
  app.add_flag("--per-head", flags->per_head, "attention weights of every head: [batch, heads, tokens, tokens]");
  text("--mask", flags->mask, "booleans, or numbers that are added to the scores: .npy", "FILE");
  text("--mask-means", flags->mask_means, "what true means in --mask: allow or block", "WORD");
  text("--key-padding-mask", flags->key_padding_mask,
       "booleans, [batch, num_tokens], true: padding, as in PyTorch: .npy", "FILE");
  text("--key-padding-means", flags->key_padding_means, "what true means there: block (padding, unless given) or allow",
       "WORD");
  text("--prefix", flags->prefix, "what comes before the names in a whole model's file, e.g. h.0.attn", "TEXT");
  text("--layout", flags->layout, "how the weights are named and stored, where the names leave it open", "NAME");
  text("--convert", flags->convert, "write the weights in another layout, compute nothing", "FILE");
  text("--to", flags->to, "that layout", "NAME");
  text("--to-prefix", flags->to_prefix, "put before its names", "TEXT");
  app.add_option("--kv-heads", flags->kv_heads, "key heads it stores (llama, opt); equal heads become one")
      ->check(whole_number(1))
      ->type_name("N");
  add_shape_flags(app, flags->work);
  // Here sizes and types come from the files, so the defaults of other commands would mislead.
  for (const char* flag : {"--batch", "--tokens", "--d-in", "--d-out", "--heads", "--dtype"}) {
    app.get_option(flag)->default_str("");
  }
  app.get_option("--d-out")->description("width of the result, over all heads");
  app.get_option("--heads")->description("heads; needed where the weights do not tell");
  app.get_option("--dtype")->description("float32 or float64; as the input unless given");
  app.footer(kExamples);
  return [flags, &app] { return app.count("--convert") > 0 ? convert(app, *flags) : compute(app, *flags); };
}

}  // namespace ennead::cli
