// SPDX-License-Identifier: Apache-2.0
// Files of the source tree that the tool carries with it.
#pragma once

#include <span>
#include <string_view>

namespace ennead::cli {

struct EmbeddedFile {
  std::string_view path;  ///< from the root of the source tree
  std::string_view text;
};

/// Written by embed.cmake.
std::span<const EmbeddedFile> embedded_files();
/// Its text, or nothing when it is not among them.
std::string_view embedded(std::string_view path);

}  // namespace ennead::cli
