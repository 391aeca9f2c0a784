// SPDX-License-Identifier: Apache-2.0
// The difference of two texts, line by line.
#pragma once

#include <string_view>
#include <vector>

namespace ennead::cli {

/// Without the newlines; a last line without one counts too.
std::vector<std::string_view> split_lines(std::string_view text);

struct DiffLine {
  char kind;  ///< ' ' in both, '-' only before, '+' only after, '@' where unchanged lines are left out
  std::string_view text;

  bool operator==(const DiffLine&) const = default;
};

/// A shortest edit by the longest common subsequence, with `context` unchanged lines around changes.
/// A line of another indentation counts as unchanged and is shown as it is after. The lines point into
/// the two texts.
std::vector<DiffLine> diff_lines(std::string_view before, std::string_view after, std::size_t context = 3);

}  // namespace ennead::cli
