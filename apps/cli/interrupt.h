// SPDX-License-Identifier: Apache-2.0
// Ctrl-C asks for an end; the second one enforces it.
#pragma once

namespace ennead::cli {

/// While it lives, the first SIGINT or SIGTERM only sets a flag; the next does what it always did.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

  static bool raised();
};

}  // namespace ennead::cli
