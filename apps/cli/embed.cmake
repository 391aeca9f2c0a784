# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=<dir> -DOUT=<file> -DFILES=a|b|c -P embed.cmake
# Writes the files as raw string literals into one C++ source.
string(REPLACE "|" ";" FILES "${FILES}")
set(text "// Written by embed.cmake.
#include <array>

#include \"embedded.h\"

namespace ennead::cli {
namespace {

constexpr auto kFiles = std::to_array<EmbeddedFile>({
")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} content)
  string(APPEND text "    {\"${file}\", R\"ennead(${content})ennead\"},\n")
endforeach()
string(APPEND text "});

}  // namespace

std::span<const EmbeddedFile> embedded_files() { return kFiles; }

std::string_view embedded(std::string_view path) {
  for (const EmbeddedFile& file : kFiles) {
    if (file.path == path) return file.text;
  }
  return {};
}

}  // namespace ennead::cli
")
file(WRITE ${OUT} "${text}")
