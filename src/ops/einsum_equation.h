// SPDX-License-Identifier: Apache-2.0
// Reading an einsum equation.
#pragma once

#include <string_view>
#include <vector>

#include "ennead/error.h"
#include "ennead/tensor.h"

namespace ennead::ops {

/// One label per axis. Letters are their character code; the axes that "..." stands for are
/// kEllipsis + their distance from the last of them, so that they align from the right.
using Labels = std::vector<int>;
inline constexpr int kEllipsis = 1000;

struct EinsumEquation {
  Labels a, b, result;
};

/// Reads `equation` for operands of these sizes. Without "->" the result has the axes of "..." and
/// then the letters that appear once, in alphabetical order. Throws Error (expected, got).
EinsumEquation parse_einsum(std::string_view equation, const Dims& a, const Dims& b);

/// Where `label` stands in `labels`, or -1.
int find_label(const Labels& labels, int label);

}  // namespace ennead::ops
