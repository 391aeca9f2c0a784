// SPDX-License-Identifier: Apache-2.0
#include "line_diff.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ennead::cli {
namespace {

/// Lines that differ in their indentation only are the same: a loop around them changes nothing in them.
bool same_line(std::string_view a, std::string_view b) {
  const auto unindented = [](std::string_view line) {
    return line.substr(std::min(line.find_first_not_of(' '), line.size()));
  };
  return unindented(a) == unindented(b);
}

/// Every line with its kind, unchanged ones included.
std::vector<DiffLine> full_diff(const std::vector<std::string_view>& before,
                                const std::vector<std::string_view>& after) {
  const std::size_t n = before.size(), m = after.size();
  // common[i][j]: length of the longest common subsequence of before[i..] and after[j..]
  std::vector<std::uint32_t> common((n + 1) * (m + 1), 0);
  const auto at = [m](std::size_t i, std::size_t j) { return i * (m + 1) + j; };
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = m; j-- > 0;) {
      common[at(i, j)] = same_line(before[i], after[j]) ? common[at(i + 1, j + 1)] + 1
                                                        : std::max(common[at(i + 1, j)], common[at(i, j + 1)]);
    }
  }
  std::vector<DiffLine> lines;
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && same_line(before[i], after[j])) {
      lines.push_back({' ', after[j]});
      ++i, ++j;
    } else if (i < n && (j == m || common[at(i + 1, j)] >= common[at(i, j + 1)])) {
      lines.push_back({'-', before[i++]});
    } else {
      lines.push_back({'+', after[j++]});
    }
  }
  return lines;
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<DiffLine> diff_lines(std::string_view before, std::string_view after, std::size_t context) {
  const std::vector<DiffLine> all = full_diff(split_lines(before), split_lines(after));
  std::vector<bool> shown(all.size(), false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind == ' ') continue;
    const std::size_t first = i < context ? 0 : i - context, last = std::min(all.size(), i + context + 1);
    for (std::size_t k = first; k < last; ++k) shown[k] = true;
  }
  std::vector<DiffLine> lines;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (shown[i]) {
      lines.push_back(all[i]);
    } else if (i == 0 || shown[i - 1]) {
      lines.push_back({'@', " unchanged"});
    }
  }
  return lines;
}

}  // namespace ennead::cli
