// SPDX-License-Identifier: Apache-2.0
// The times the notebook published, which were not measured here and are always shown apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/result.h"
#include "render/terminal.h"

namespace ennead::render {

struct PublishedSeries {
  std::string id, machine, torch, pass, method;
  std::vector<std::optional<double>> mean_ms;  ///< of variant 1, 2, ...
};

struct Published {
  std::string source, work;
  std::vector<std::string> names;  ///< of variant 1, 2, ... in the notebook
  std::vector<PublishedSeries> series;
  std::vector<std::string> caveats;

  /// nullptr when there is no such series.
  const PublishedSeries* find(const std::string& id) const;
};

/// Throws Error when the text is not such a file.
Published parse_published(const std::string& json);

/// The published times of the same pass beside those measured, in grey, each with its ratio to
/// variant 1, followed by what is wrong with them.
std::string published_table(const harness::Result& result, const Published& published, const Terminal& terminal);

}  // namespace ennead::render
