// SPDX-License-Identifier: Apache-2.0
// ennead list: the variants, and what each changes.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands/command.h"
#include "embedded.h"
#include "ennead/variants.h"
#include "render/published.h"
#include "render/terminal.h"

namespace ennead::cli {
namespace {

void print_json() {
  using Json = nlohmann::ordered_json;
  const render::Published published = render::parse_published(std::string(embedded("data/published.json")));
  Json list = Json::array();
  for (const VariantInfo& info : variants()) {
    const std::size_t index = static_cast<std::size_t>(info.number - 1);
    list.push_back({{"number", info.number},
                    {"slug", info.slug},
                    {"title", info.title},
                    {"parent", info.parent == 0 ? Json(nullptr) : Json(info.parent)},
                    {"change", info.change},
                    {"notebook", index < published.names.size() ? Json(published.names[index]) : Json(nullptr)},
                    {"source", fmt::format("src/variants/{}.cpp", info.slug)},
                    {"supports",
                     {{"dropout", info.supports.dropout},
                      {"gradient", info.supports.gradient},
                      {"attn_mask", info.supports.attn_mask},
                      {"key_padding_mask", info.supports.key_padding_mask},
                      {"need_weights", info.supports.need_weights}}}});
  }
  fmt::print("{}\n", list.dump(1));
}

void print_text(const render::Terminal& terminal) {
  for (const VariantInfo& info : variants()) {
    const std::string head = fmt::format("{:>2} {:<20} ", info.number, info.slug);
    const std::string from = info.parent == 0 ? "" : fmt::format("from {}: ", info.parent);
    fmt::print("{}{}\n", render::styled(head, render::Style::bold, terminal),
               render::wrapped(from + std::string(info.change), static_cast<std::size_t>(terminal.width), head.size()));
  }
}

}  // namespace

Action list_command(CLI::App& app) {
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "for programs");
  return [json] {
    if (*json) {
      print_json();
    } else {
      print_text(render::detect_terminal());
    }
    return 0;
  };
}

}  // namespace ennead::cli
