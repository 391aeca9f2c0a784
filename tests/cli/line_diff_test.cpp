// SPDX-License-Identifier: Apache-2.0
// The difference of two listings, as `ennead show --diff` prints it.
#include "line_diff.h"

#include <gtest/gtest.h>

#include <vector>

namespace ennead::cli {
namespace {

TEST(Diff, FindsTheShortestEdit) {
  const std::vector<DiffLine> lines = diff_lines("a\nb\nc\nd\ne\n", "a\nb\nx\nd\ne\n", 1);
  const std::vector<DiffLine> expected{{'@', " unchanged"}, {' ', "b"}, {'-', "c"},
                                       {'+', "x"},          {' ', "d"}, {'@', " unchanged"}};
  EXPECT_EQ(lines, expected);
  EXPECT_EQ(diff_lines("", "a\n").size(), 1u);
}

// A loop that goes leaves its body as it was. Mutants: every line of the body shown as changed; a blank line
// and a line of code taken for the same.
TEST(Diff, IndentationIsNoChange) {
  const std::vector<DiffLine> expected{{'-', "for (;;) {"}, {' ', "a;"}, {' ', "b;"}, {'-', "}"}};
  EXPECT_EQ(diff_lines("for (;;) {\n  a;\n    b;\n}\n", "a;\nb;\n"), expected);
  EXPECT_EQ(diff_lines("  \n", "a\n").size(), 2u);
}

}  // namespace
}  // namespace ennead::cli
