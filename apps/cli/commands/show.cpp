// SPDX-License-Identifier: Apache-2.0
// ennead show N: the source of a variant as it was when this tool was built.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "embedded.h"
#include "flags.h"
#include "line_diff.h"
#include "render/terminal.h"

namespace ennead::cli {
namespace {

using render::Style;
using render::Terminal;

std::string source_path(const VariantInfo& info) { return fmt::format("src/variants/{}.cpp", info.slug); }

std::string heading(std::string_view text, const Terminal& terminal) {
  return render::styled(text, Style::bold, terminal);
}

/// Two listings next to each other where both fit, else one below the other.
std::string beside(const std::string& left_title, std::string_view left, const std::string& right_title,
                   std::string_view right, const Terminal& terminal) {
  const std::vector<std::string_view> left_lines = split_lines(left), right_lines = split_lines(right);
  const auto widest = [](const std::string& title, const std::vector<std::string_view>& lines) {
    std::size_t width = title.size();
    for (std::string_view line : lines) width = std::max(width, render::columns(line));
    return width;
  };
  const std::size_t left_width = widest(left_title, left_lines), right_width = widest(right_title, right_lines);
  const std::string separator = fmt::format("  {}  ", render::symbols(terminal).separator);
  if (left_width + 5 + right_width > static_cast<std::size_t>(terminal.width)) {
    return fmt::format("{}\n\n{}\n{}\n\n{}", heading(left_title, terminal), left, heading(right_title, terminal),
                       right);
  }
  std::string text =
      heading(render::pad_right(left_title, left_width), terminal) + separator + heading(right_title, terminal) + "\n";
  for (std::size_t i = 0; i < std::max(left_lines.size(), right_lines.size()); ++i) {
    const std::string_view l = i < left_lines.size() ? left_lines[i] : std::string_view();
    const std::string_view r = i < right_lines.size() ? right_lines[i] : std::string_view();
    text += render::pad_right(l, left_width) + separator + std::string(r) + "\n";
  }
  return text;
}

std::string difference(const VariantInfo& parent, const VariantInfo& info, const Terminal& terminal) {
  std::string text = render::styled("--- " + source_path(parent), Style::bold, terminal) + "\n" +
                     render::styled("+++ " + source_path(info), Style::bold, terminal) + "\n";
  for (const DiffLine& line : diff_lines(embedded(source_path(parent)), embedded(source_path(info)))) {
    const Style style = line.kind == '+' ? Style::good : line.kind == '-' ? Style::bad : Style::plain;
    text += render::styled(fmt::format("{}{}", line.kind, line.text), style, terminal) + "\n";
  }
  return text;
}

int show(const VariantInfo& info, bool diff) {
  const Terminal terminal = render::detect_terminal();
  if (diff) {
    const VariantInfo* parent = info.parent == 0 ? nullptr : find_variant(std::to_string(info.parent));
    if (parent == nullptr) {
      fmt::print("{} ({}) has no parent: it is where the others start.\n", info.number, info.slug);
      return 0;
    }
    fmt::print("{}", difference(*parent, info, terminal));
    return 0;
  }
  const std::string title = fmt::format("{} ({}), {}", info.number, info.title, source_path(info));
  const std::string_view source = embedded(source_path(info));
  const std::string book_path = fmt::format("docs/book/{}.py", info.slug);
  if (const std::string_view book = embedded(book_path); !book.empty()) {
    fmt::print("{}", beside("The book's listing", book, title, source, terminal));
  } else {
    fmt::print("{}\n\n{}", heading(title, terminal), source);
  }
  return 0;
}

}  // namespace

Action show_command(CLI::App& app) {
  struct Flags {
    std::string variant;
    bool diff = false;
  };
  const auto flags = std::make_shared<Flags>();
  app.add_option("variant", flags->variant, "number or name of `ennead list`")->required();
  app.add_flag("--diff", flags->diff, "only what it changes from its parent");
  app.footer("Examples:\n  ennead show 2\n  ennead show combined_qkv --diff");
  return [flags] { return show(resolve_variant(flags->variant), flags->diff); };
}

}  // namespace ennead::cli
