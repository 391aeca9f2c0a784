// SPDX-License-Identifier: Apache-2.0
// ennead check: every variant compared with float64 loops that share no code with it.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "commands/command.h"
#include "flags.h"
#include "harness/footprint.h"
#include "harness/numbers.h"
#include "harness/verify.h"
#include "interrupt.h"
#include "progress.h"
#include "render/summary.h"
#include "render/terminal.h"
#include "render/verdicts.h"

namespace ennead::cli {
namespace {

struct Flags {
  WorkFlags work;
  std::vector<std::string> names;
};

constexpr const char* kExamples = R"(Examples:
  ennead check                                odd shapes, both element types
  ennead check 5 --isa avx2                   one variant, on another instruction set
  ennead check --tokens 1025 --dtype float64  one shape of your own
Without a shape: several odd ones, causal and not, with and without biases.)";

/// Sizes that are no multiples of any tile; more than one sequence and head, or mistakes in their
/// order hide; widths that differ, or a mixed-up d_in and d_out hides.
std::vector<Shape> odd_shapes() {
  return {{2, 7, 24, 30, 3, true, true},
          {3, 1, 8, 8, 2, true, false},
          {2, 65, 96, 126, 2, false, true},
          {2, 129, 80, 160, 2, true, false},
          {1, 257, 40, 72, 3, true, true}};
}

bool shape_given(const CLI::App& app) {
  for (const char* flag : {"--batch", "--tokens", "--d-in", "--d-out", "--heads", "--causal", "--qkv-bias"}) {
    if (app.count(flag) > 0) return true;
  }
  return false;
}

/// Keeps the worst of what several shapes gave, variant by variant.
void merge(harness::Verification& sum, const harness::Verification& more, const std::string& where) {
  const bool first = sum.verdicts.empty();
  if (first) sum = more;
  for (std::size_t i = 0; i < more.verdicts.size(); ++i) {
    harness::Verdict& kept = sum.verdicts[i];
    const harness::Verdict& verdict = more.verdicts[i];
    const double times_first = std::max(kept.times_first, verdict.times_first);
    const bool worse = kept.ok == verdict.ok ? verdict.max_abs_err > kept.max_abs_err : kept.ok;
    if (first || worse) {
      kept = verdict;
      kept.worst = fmt::format("{} of {}", verdict.worst, where);
    }
    kept.times_first = times_first;
  }
  sum.largest_difference = std::max(sum.largest_difference, more.largest_difference);
}

/// Checks one element type over all shapes, telling each; stops early on Ctrl-C.
harness::Verification check_shapes(const std::vector<const VariantInfo*>& chosen, const std::vector<Shape>& shapes,
                                   Work work, const render::Terminal& terminal) {
  Progress progress;
  harness::VerifyOptions options;
  options.stop = InterruptFlag::raised;
  options.progress = [&progress](const std::string& what) { progress.show(what); };
  harness::Verification sum;
  for (const Shape& shape : shapes) {
    work.shape = shape;
    require_memory(chosen, work);
    const harness::Verification verification = verify(chosen, work, options);
    progress.clear();
    if (verification.interrupted) {
      sum.interrupted = true;
      return sum;
    }
    const std::string title =
        render::work_line({shape, std::string(name(work.pass)), std::string(name(work.precision)), work.seed});
    const std::string rows = fmt::format("; {} of {} rows", verification.rows_checked, shape.num_tokens);
    fmt::print("{}\n", render::styled(title + rows, render::Style::faint, terminal));
    merge(sum, verification, render::output_shape(shape));
  }
  fmt::print("{}largest difference between any two outputs: {}\n\n", render::verdict_table(sum, terminal),
             harness::small(sum.largest_difference));
  return sum;
}

int check(const CLI::App& app, const Flags& flags) {
  Work work = resolve(app, flags.work);
  const std::vector<const VariantInfo*> chosen = resolve_variants(flags.names);
  require_pass(chosen, work.pass);
  const std::vector<Shape> shapes = shape_given(app) ? std::vector<Shape>{work.shape} : odd_shapes();
  std::vector<Precision> precisions{work.precision};
  if (app.count("--dtype") == 0) precisions = {Precision::float32, Precision::float64};

  const InterruptFlag interrupt;
  bool ok = true;
  for (Precision precision : precisions) {
    work.precision = precision;
    const harness::Verification verification = check_shapes(chosen, shapes, work, render::detect_terminal());
    if (verification.interrupted) {
      fmt::print(stderr, "ennead: interrupted; the rest was not checked\n");
      return 1;
    }
    ok = ok && verification.ok();
  }
  if (!ok) {
    fmt::print(stderr, "ennead: expected every variant to agree with float64, got the ones marked WRONG\n");
    return 1;
  }
  fmt::print("all agree\n");
  return 0;
}

}  // namespace

Action check_command(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("variants", flags->names, "numbers or names of `ennead list`; all unless given");
  add_pass_flag(app, flags->work);
  add_shape_flags(app, flags->work);
  app.footer(kExamples);
  return [flags, &app] { return check(app, *flags); };
}

}  // namespace ennead::cli
