// SPDX-License-Identifier: Apache-2.0
#include "ops/einsum_equation.h"

#include <algorithm>
#include <map>
#include <string>

namespace ennead::ops {
namespace {

constexpr std::string_view kDots = "...";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

[[noreturn]] void refuse(std::string_view equation, const std::string& why) {
  raise(sentence("einsum: ", why, ", got \"", equation, "\""));
}

// The labels of one term; `ellipsis_axes` is how many axes its "..." stands for.
Labels read_term(std::string_view equation, std::string_view term, int ellipsis_axes) {
  Labels labels;
  bool dots = false;
  for (std::size_t at = 0; at < term.size(); ++at) {
    if (is_letter(term[at])) {
      labels.push_back(term[at]);
    } else if (!dots && term.substr(at, kDots.size()) == kDots) {
      dots = true;
      for (int axis = ellipsis_axes - 1; axis >= 0; --axis) labels.push_back(kEllipsis + axis);
      at += kDots.size() - 1;
    } else {
      refuse(equation, "expected letters and at most one \"...\" per operand");
    }
  }
  return labels;
}

int letters_in(std::string_view term) { return static_cast<int>(std::count_if(term.begin(), term.end(), is_letter)); }

bool has_dots(std::string_view term) { return term.find(kDots) != std::string_view::npos; }

int ellipsis_axes(std::string_view equation, std::string_view term, const Dims& sizes) {
  const int axes = sizes.rank() - letters_in(term);
  if (axes < 0 || (axes > 0 && !has_dots(term))) {
    refuse(equation, sentence("expected an index for each axis of ", to_string(sizes)));
  }
  return axes;
}

// Letters of both operands that appear once, in order.
Labels implicit_result(const Labels& a, const Labels& b) {
  std::map<int, int> counts;
  for (const Labels* labels : {&a, &b}) {
    for (int label : *labels) ++counts[label];
  }
  Labels result;
  for (auto it = counts.rbegin(); it != counts.rend() && it->first >= kEllipsis; ++it) result.push_back(it->first);
  for (const auto& [label, count] : counts) {
    if (label < kEllipsis && count == 1) result.push_back(label);
  }
  return result;
}

}  // namespace

int find_label(const Labels& labels, int label) {
  const auto at = std::find(labels.begin(), labels.end(), label);
  return at == labels.end() ? -1 : static_cast<int>(at - labels.begin());
}

EinsumEquation parse_einsum(std::string_view equation, const Dims& a, const Dims& b) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  const std::size_t arrow = text.find("->");
  const std::string_view all = text;
  const std::string_view operands = all.substr(0, arrow);
  const std::size_t comma = operands.find(',');
  if (comma == std::string_view::npos || operands.find(',', comma + 1) != std::string_view::npos) {
    refuse(equation, "expected two operands, \"...,...->...\"");
  }
  const std::string_view term_a = operands.substr(0, comma);
  const std::string_view term_b = operands.substr(comma + 1);
  const int dots_a = ellipsis_axes(equation, term_a, a);
  const int dots_b = ellipsis_axes(equation, term_b, b);

  EinsumEquation parsed;
  parsed.a = read_term(equation, term_a, dots_a);
  parsed.b = read_term(equation, term_b, dots_b);
  if (arrow == std::string::npos) {
    parsed.result = implicit_result(parsed.a, parsed.b);
    return parsed;
  }
  parsed.result = read_term(equation, all.substr(arrow + 2), std::max(dots_a, dots_b));
  for (std::size_t i = 0; i < parsed.result.size(); ++i) {
    const int label = parsed.result[i];
    if (find_label(parsed.result, label) != static_cast<int>(i)) {
      refuse(equation, "expected each index of the result once");
    }
    if (find_label(parsed.a, label) < 0 && find_label(parsed.b, label) < 0) {
      refuse(equation, "expected each index of the result in an operand");
    }
  }
  return parsed;
}

}  // namespace ennead::ops
