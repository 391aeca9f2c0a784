// SPDX-License-Identifier: Apache-2.0
#include "verdict_table.h"

#include <fmt/core.h>

#include <cmath>

#include "render/numbers.h"
#include "render/table.h"

namespace ennead::cli {

std::string verdict_table(const Verification& verification, const render::Terminal& terminal) {
  using render::Cell;
  using render::Style;
  render::Table table(
      {{"#"}, {"variant", false}, {""}, {"max error"}, {"/ 1's"}, {"worst at [batch, row, column]", false}});
  for (const Verdict& verdict : verification.verdicts) {
    table.add({std::to_string(verdict.info->number), std::string(verdict.info->slug),
               verdict.ok ? Cell("ok", Style::good) : Cell("WRONG", Style::bad), render::small(verdict.max_abs_err),
               std::isfinite(verdict.times_first) ? fmt::format("{:.2f}", verdict.times_first) : "-", verdict.worst});
  }
  return table.terminal(terminal);
}

}  // namespace ennead::cli
