// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/core.h>

#include <cstdio>

#include "render/terminal.h"

namespace ennead::cli {

Progress::Progress() : terminal_(render::is_terminal(stderr)) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& what) {
  if (!terminal_) return;
  const std::size_t padding = what.size() < shown_ ? shown_ - what.size() : 0;
  fmt::print(stderr, "\r{}{:{}}\r", what, "", padding);
  std::fflush(stderr);
  shown_ = what.size();
}

void Progress::clear() {
  if (shown_ > 0) show("");
}

}  // namespace ennead::cli
