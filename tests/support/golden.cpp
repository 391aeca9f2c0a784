// SPDX-License-Identifier: Apache-2.0
#include "support/golden.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "support/source_dir.h"

namespace ennead::test {
std::string golden_path(const std::string& file) { return source_dir() + "/tests/golden/" + file; }

GoldenFile::GoldenFile(const std::string& name) : file_(golden_path(name + ".safetensors")) {}

std::vector<std::string> GoldenFile::names(std::string_view prefix) const {
  std::vector<std::string> found;
  for (const SafetensorsFile::Entry& entry : file_.entries()) {
    if (entry.name.starts_with(prefix)) found.push_back(entry.name);
  }
  return found;
}

std::vector<double> GoldenFile::values(std::string_view name) const {
  return to_doubles(file_.read<double>(Context({.threads = 1}), name));
}

double GoldenFile::largest(std::string_view prefix) const {
  double largest = 0;
  for (const std::string& name : names(prefix)) {
    for (const double value : values(name)) largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

std::string GoldenFile::text(const std::string& key) const {
  const auto found = file_.metadata().find(key);
  return found == file_.metadata().end() ? "" : found->second;
}

std::int64_t GoldenFile::integer(const std::string& key) const { return text(key).empty() ? 0 : std::stoll(text(key)); }

double GoldenFile::number(const std::string& key) const { return text(key).empty() ? 0 : std::stod(text(key)); }

std::vector<std::string> golden_cases(std::string_view kind, bool (*wanted)(const GoldenFile& file)) {
  std::vector<std::string> cases;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path(""))) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = entry.path().stem().string();
    const GoldenFile file(name);
    if (file.text("kind") == kind && (wanted == nullptr || wanted(file))) cases.push_back(name);
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::string golden_name(std::string_view weight) {
  return weight.find('.') == std::string_view::npos ? sentence(weight, ".weight") : std::string(weight);
}

}  // namespace ennead::test
