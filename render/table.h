// SPDX-License-Identifier: Apache-2.0
// A table of text: aligned for the terminal, or as Markdown.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "render/terminal.h"

namespace ennead::render {

struct Cell {
  std::string text;
  Style style = Style::plain;

  Cell(std::string t, Style s = Style::plain) : text(std::move(t)), style(s) {}  // NOLINT: meant to convert
  Cell(const char* t) : text(t) {}                                               // NOLINT: meant to convert
};

struct Column {
  std::string title;
  bool right = true;  ///< numbers stand right, words left
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }

  /// Two spaces between columns; a left-aligned last column is cut to the terminal's width.
  std::string terminal(const Terminal& terminal) const;
  std::string markdown() const;

 private:
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace ennead::render
