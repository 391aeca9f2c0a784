// SPDX-License-Identifier: Apache-2.0
#include "render/verdicts.h"

#include <fmt/core.h>

#include <cmath>

#include "harness/numbers.h"
#include "render/table.h"

namespace ennead::render {

std::string verdict_table(const harness::Verification& verification, const Terminal& terminal) {
  Table table({{"#"}, {"variant", false}, {""}, {"max error"}, {"/ 1's"}, {"worst at [batch, row, column]", false}});
  for (const harness::Verdict& verdict : verification.verdicts) {
    table.add({std::to_string(verdict.info->number), std::string(verdict.info->slug),
               verdict.ok ? Cell("ok", Style::good) : Cell("WRONG", Style::bad), harness::small(verdict.max_abs_err),
               std::isfinite(verdict.times_first) ? fmt::format("{:.2f}", verdict.times_first) : "-", verdict.worst});
  }
  return table.terminal(terminal);
}

}  // namespace ennead::render
