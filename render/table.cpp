// SPDX-License-Identifier: Apache-2.0
#include "render/table.h"

#include <algorithm>

namespace ennead::render {

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(render::columns(column.title));
  for (const std::vector<Cell>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], render::columns(row[i].text));
  }
  return widths;
}

std::string Table::terminal(const Terminal& terminal) const {
  const std::vector<std::size_t> width = widths();
  const std::size_t last = columns_.size() - 1, limit = static_cast<std::size_t>(terminal.width);
  const auto line = [&](auto&& text_of, auto&& style_of) {
    std::string text;
    std::size_t used = 0;
    for (std::size_t i = 0; i <= last; ++i) {
      const std::string gap = i == 0 ? "" : "  ";
      std::string cell = text_of(i);
      used += gap.size();
      if (i == last && !columns_[i].right) {
        cell = cut(cell, limit > used + 8 ? limit - used : 8, terminal);
      } else {
        cell = columns_[i].right ? pad_left(cell, width[i]) : pad_right(cell, width[i]);
      }
      used += render::columns(cell);
      text += gap + styled(cell, style_of(i), terminal);
    }
    return text + "\n";
  };
  std::string text = line([&](std::size_t i) { return columns_[i].title; }, [](std::size_t) { return Style::faint; });
  for (const std::vector<Cell>& row : rows_) {
    text += line([&](std::size_t i) { return row[i].text; }, [&](std::size_t i) { return row[i].style; });
  }
  return text;
}

std::string Table::markdown() const {
  std::string text = "|", rule = "|";
  for (const Column& column : columns_) {
    text += " " + column.title + " |";
    rule += column.right ? "---:|" : "---|";
  }
  text += "\n" + rule + "\n";
  for (const std::vector<Cell>& row : rows_) {
    text += "|";
    for (const Cell& cell : row) text += " " + cell.text + " |";
    text += "\n";
  }
  return text;
}

}  // namespace ennead::render
