// SPDX-License-Identifier: Apache-2.0
// ennead bench: check the variants, then race them.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands/command.h"
#include "embedded.h"
#include "flags.h"
#include "harness/clock.h"
#include "harness/footprint.h"
#include "harness/race.h"
#include "harness/verify.h"
#include "interrupt.h"
#include "io/file.h"
#include "progress.h"
#include "render/bars.h"
#include "render/published.h"
#include "render/verdicts.h"
#include "version.h"

namespace ennead::cli {
namespace {

struct Flags {
  WorkFlags work;
  std::vector<std::string> names;
  double seconds = 0;  ///< 0: by default, or by --quick
  bool quick = false, published = false;
  std::string json;
};

constexpr const char* kExamples = R"(Examples:
  ennead bench                             all ten, a minute or so
  ennead bench --quick --published         under 20 seconds, beside the notebook's times
  ennead bench 5 8 10 --threads 1 --tokens 4096 --batch 1
  ennead bench --pass forward-backward     those that have gradients
  ennead bench --json result.json          every sample, for programs
Ctrl-C ends early; what was measured until then is printed and written.)";

constexpr const char* kStandardOutput = "-";

/// Checking included; a little is left for what comes after the rounds.
constexpr double kQuickSeconds = 17, kDefaultSeconds = 75;

/// Without names: all that can run the pass.
std::vector<const VariantInfo*> choose(const Flags& flags, Pass pass) {
  std::vector<const VariantInfo*> chosen = resolve_variants(flags.names);
  if (flags.names.empty() && pass == Pass::forward_backward) {
    std::erase_if(chosen, [](const VariantInfo* info) { return !info->supports.gradient; });
  }
  require_pass(chosen, pass);
  return chosen;
}

/// Nothing when an answer is wrong or the user broke off: then nothing is to be timed.
std::optional<harness::Verification> check_answers(const std::vector<const VariantInfo*>& chosen, const Work& work,
                                                   Progress& progress) {
  harness::VerifyOptions options;
  options.stop = InterruptFlag::raised;
  options.progress = [&progress](const std::string& what) { progress.show(what); };
  harness::Verification verification = verify(chosen, work, options);
  progress.clear();
  if (verification.interrupted) {
    fmt::print(stderr, "ennead: interrupted while checking; nothing was measured\n");
    return {};
  }
  if (!verification.ok()) {
    fmt::print("{}", render::verdict_table(verification, render::detect_terminal()));
    fmt::print(stderr, "ennead: expected right answers before timing them, got wrong ones; nothing was timed\n");
    return {};
  }
  return verification;
}

harness::RaceOptions race_options(const Flags& flags, double seconds_spent, Progress& progress) {
  harness::RaceOptions options;
  if (flags.quick) {
    options.warm_up_seconds = 0.1;
    options.min_rounds = 1;
  }
  if (flags.seconds > 0) {
    options.seconds = flags.seconds;
    options.max_rounds = 10'000;
  } else {
    options.seconds = (flags.quick ? kQuickSeconds : kDefaultSeconds) - seconds_spent;
  }
  options.build = build_record();
  options.stop = InterruptFlag::raised;
  options.progress = [&progress](const std::string& what) { progress.show(what); };
  return options;
}

void print(const harness::Result& result, const Flags& flags) {
  if (flags.json == kStandardOutput) {
    fmt::print("{}", harness::to_json(result));
    return;
  }
  const render::Terminal terminal = render::detect_terminal();
  fmt::print("{}", render::terminal_race(result, terminal));
  if (flags.published) {
    const render::Published published = render::parse_published(std::string(embedded("data/published.json")));
    fmt::print("\n{}", render::published_table(result, published, terminal));
  }
}

/// What was measured may still be nothing to rely on.
int status_of(const harness::Result& result) {
  if (result.interrupted) {
    fmt::print(stderr, "ennead: interrupted; this is what was measured until then\n");
    return 1;
  }
  for (const harness::Bar& bar : result.results) {
    if (bar.share_of_peak > 1) {
      fmt::print(stderr, "ennead: expected shares of the peak of at most 1, got {:.3f} for {}\n", bar.share_of_peak,
                 bar.slug);
      return 1;
    }
  }
  return 0;
}

int bench(const CLI::App& app, const Flags& flags) {
  const harness::Clock now = harness::wall_clock();
  const std::int64_t start = now();
  const Work work = resolve(app, flags.work);
  const std::vector<const VariantInfo*> chosen = choose(flags, work.pass);
  io::OutputFile file;
  const bool write = !flags.json.empty() && flags.json != kStandardOutput;
  if (write) require(file.open(flags.json));
  require_memory(chosen, work);

  const InterruptFlag interrupt;
  Progress progress;
  const std::optional<harness::Verification> verification = check_answers(chosen, work, progress);
  if (!verification) return 1;
  const double seconds_spent = static_cast<double>(now() - start) * 1e-9;
  const harness::Result result = race(chosen, work, *verification, race_options(flags, seconds_spent, progress));
  progress.clear();
  if (result.peak_flops.empty()) {
    fmt::print(stderr, "ennead: interrupted before the first round; nothing was measured\n");
    return 1;
  }
  print(result, flags);
  std::fflush(stdout);
  if (write) {
    const std::string text = harness::to_json(result);
    require(file.write(std::as_bytes(std::span(text))));
    require(file.commit());
    fmt::print(stderr, "wrote {}\n", flags.json);
  }
  return status_of(result);
}

}  // namespace

Action bench_command(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("variants", flags->names, "numbers or names of `ennead list`; all unless given");
  app.add_flag("--quick", flags->quick, "fewer rounds: done within 20 seconds on two cores");
  app.add_option("--seconds", flags->seconds, "how long the rounds take, checking not included")
      ->check(positive_seconds())
      ->type_name("S");
  app.add_option("--json", flags->json, "write every sample to this file (- for standard output)")->type_name("FILE");
  app.add_flag("--published", flags->published, "show the notebook's published times beside, in grey");
  add_pass_flag(app, flags->work);
  add_shape_flags(app, flags->work);
  app.footer(kExamples);
  return [flags, &app] { return bench(app, *flags); };
}

}  // namespace ennead::cli
