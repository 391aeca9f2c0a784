// SPDX-License-Identifier: Apache-2.0
// A command is one file with one function, and one line in the list in main.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace ennead::cli {

/// Runs the command after the command line was parsed; returns the exit status.
using Action = std::function<int()>;

// Each adds its options to `app` (a subcommand) and returns what runs it.
Action bench_command(CLI::App& app);
Action check_command(CLI::App& app);
Action run_command(CLI::App& app);
Action list_command(CLI::App& app);
Action show_command(CLI::App& app);
Action trace_command(CLI::App& app);
Action roofline_command(CLI::App& app);

}  // namespace ennead::cli
