// SPDX-License-Identifier: Apache-2.0
// What is going on, on standard error: one line that rewrites itself on a terminal, silence elsewhere.
#pragma once

#include <cstddef>
#include <string>

namespace ennead::cli {

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& what);
  /// Removes the line, so that what is printed next starts clean.
  void clear();

 private:
  bool terminal_;
  std::size_t shown_ = 0;
};

}  // namespace ennead::cli
