// SPDX-License-Identifier: Apache-2.0
// ennead check: every variant compared with float64 loops that share no code with it.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "interrupt.h"
#include "progress.h"
#include "render/numbers.h"
#include "render/standing.h"
#include "render/terminal.h"
#include "verdict_table.h"
#include "verify.h"
#include "work_flags.h"

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

int check(const CLI::App& app, const Flags& flags) {
  const Work asked = resolve(app, flags.work);
  const std::vector<const VariantInfo*> chosen = resolve_variants(flags.names);
  require_pass(chosen, asked.pass);
  const std::vector<Shape> shapes = shape_given(app) ? std::vector<Shape>{asked.shape} : odd_shapes();
  std::vector<Precision> precisions{asked.precision};
  if (app.count("--dtype") == 0) precisions = {Precision::float32, Precision::float64};

  const render::Terminal terminal = render::detect_terminal();
  const InterruptFlag interrupt;
  Progress progress;
  VerifyOptions options;
  options.stop = InterruptFlag::raised;
  options.progress = [&progress](const std::string& what) { progress.show(what); };
  bool ok = true;
  for (Precision precision : precisions) {
    for (const Shape& shape : shapes) {
      Work work = asked;
      work.shape = shape;
      work.precision = precision;
      require_memory(chosen, work);
      const Verification verification = verify(chosen, work, options);
      progress.clear();
      const std::string title =
          render::work_line({shape, std::string(name(work.pass)), std::string(name(precision)), work.seed});
      fmt::print("{}\n{}", render::styled(title, render::Style::bold, terminal), verdict_table(verification, terminal));
      fmt::print("{} of {} rows per sequence against float64; largest difference between any two outputs {}\n\n",
                 verification.rows_checked, shape.num_tokens, render::small(verification.largest_difference));
      ok = ok && verification.ok();
      if (verification.interrupted) {
        fmt::print(stderr, "ennead: interrupted; the rest was not checked\n");
        return 1;
      }
    }
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
