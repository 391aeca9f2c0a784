// SPDX-License-Identifier: Apache-2.0
// The tool's front door: picks the command and turns what went wrong into a sentence and a status.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "ennead/error.h"
#include "usage_error.h"
#include "version.h"

namespace ennead::cli {
namespace {

struct Entry {
  const char* name;
  const char* summary;
  Action (*setup)(CLI::App& app);
};

constexpr Entry kCommands[] = {
    {"bench", "check the variants, then race them", bench_command},
    {"check", "compare every variant with float64 loops", check_command},
    {"run", "a variant over your tensors: .npy in and out, .safetensors weights", run_command},
    {"list", "the variants, and what each changes", list_command},
    {"show", "the source of a variant, with the book's listing beside it", show_command},
    {"trace", "what one call of a variant is made of, operation by operation", trace_command},
    {"roofline", "what this machine could do at most, and how close each variant comes", roofline_command},
};

constexpr const char* kExamples = R"(Examples:
  ennead bench                          race all ten at [8, 1024, 768], in a minute or so
  ennead bench --quick                  the same in under 20 seconds
  ennead bench 1 2 fused_causal --threads 1 --json out.json
  ennead check --tokens 65 --heads 3 --d-in 24 --d-out 30
  ennead trace 2                        why 2 takes the time it takes
  ennead show 3 --diff                  what 3 changes from its parent

A variant is a number or a name of `ennead list`. `ennead COMMAND --help` tells a command's options.
Exit status: 0 good, 2 the command line is wrong, 1 anything else.)";

int complain(const std::string& what, int status) {
  std::fflush(stdout);
  fmt::print(stderr, "ennead: {}\n", what);
  return status;
}

/// CLI11 would say only that it did not expect the argument.
void require_known_command(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string_view> names;
  for (const Entry& entry : kCommands) names.emplace_back(entry.name);
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  throw UsageError(fmt::format("expected one of the commands {}, got \"{}\"", fmt::join(names, ", "), argv[1]));
}

int run(int argc, char** argv) {
  CLI::App app("Multi-head attention, written ten ways: one answer, ten clocks.", "ennead");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  app.get_formatter()->column_width(28);
  Action action;
  for (const Entry& entry : kCommands) {
    CLI::App* subcommand = app.add_subcommand(entry.name, entry.summary);
    const Action run_it = entry.setup(*subcommand);
    subcommand->callback([&action, run_it] { action = run_it; });
  }
  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return 2;
  }
  require_known_command(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);  // --help, --version
    const std::string command = app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name() + " ";
    throw UsageError(fmt::format("{} (`ennead {}--help` tells what there is)", problem.what(), command));
  }
  const int status = action();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return complain("could not write to standard output", 1);
  return status;
}

}  // namespace
}  // namespace ennead::cli

int main(int argc, char** argv) {
  using namespace ennead::cli;
  try {
    return run(argc, argv);
  } catch (const UsageError& error) {
    return complain(error.what(), 2);
  } catch (const ennead::Error& error) {
    return complain(error.what(), 1);
  } catch (const std::bad_alloc&) {
    return complain("out of memory; smaller sizes or fewer variants need less", 1);
  } catch (const std::exception& error) {
    return complain(error.what(), 1);
  }
}
