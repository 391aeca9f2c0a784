// SPDX-License-Identifier: Apache-2.0
// Writes the picture and the README's tables from a committed result, so that neither can say
// anything that was not measured. With --check it only compares, for a test.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "ennead/error.h"
#include "ennead/variants.h"
#include "harness/result.h"
#include "io/file.h"
#include "render/markdown.h"
#include "render/published.h"
#include "render/svg.h"
#include "render/table.h"

namespace ennead::tools {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) raise(sentence("expected a file that can be read, got \"", path.string(), "\""));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string variants_table(const render::Published& published) {
  render::Table table({{"#"}, {"variant", false}, {"in the notebook", false}, {"from"}, {"what it changes", false}});
  for (const VariantInfo& info : variants()) {
    const std::size_t index = static_cast<std::size_t>(info.number - 1);
    table.add({std::to_string(info.number), fmt::format("[`{0}`](src/variants/{0}.cpp)", info.slug),
               index < published.names.size() ? published.names[index] : "ours",
               info.parent == 0 ? "-" : std::to_string(info.parent), std::string(info.change)});
  }
  return table.markdown();
}

/// @return whether the file is, or now is, as it should be
bool settle(const std::filesystem::path& path, const std::string& wanted, bool check) {
  const bool same = std::filesystem::exists(path) && read(path) == wanted;
  if (same) return true;
  if (check) {
    fmt::print(stderr, "{} is not what the result file says; run tools/readme\n", path.string());
    return false;
  }
  io::OutputFile file;
  require(file.open(path.string()));
  require(file.write(std::as_bytes(std::span(wanted))));
  require(file.commit());
  fmt::print("wrote {}\n", path.string());
  return true;
}

int run(const std::filesystem::path& root, const std::filesystem::path& result_path, bool check) {
  const harness::Result result = harness::result_from_json(read(result_path));
  const render::Published published = render::parse_published(read(root / "data/published.json"));
  bool good = settle(root / "docs/bars.svg", render::svg_race(result, published), check);
  const std::filesystem::path readme = root / "README.md";
  std::string text = read(readme);
  text = render::replace_part(text, "bars", render::markdown_race(result, published));
  text = render::replace_part(text, "variants", variants_table(published));
  good = settle(readme, text, check) && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace ennead::tools

int main(int argc, char** argv) {
  const bool check = argc == 4 && std::string(argv[3]) == "--check";
  if (argc != 3 && !check) {
    fmt::print(stderr, "usage: ennead_readme SOURCE_DIR RESULT.json [--check]\n");
    return 2;
  }
  try {
    return ennead::tools::run(argv[1], argv[2], check);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ennead_readme: {}\n", error.what());
    return 1;
  }
}
