// SPDX-License-Identifier: Apache-2.0
// Times variants whose answers were checked.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/result.h"
#include "harness/verify.h"
#include "harness/work.h"

namespace ennead::harness {

struct RaceOptions {
  double seconds = 50;
  double warm_up_seconds = 3;  ///< of each variant at most
  int min_rounds = 3;
  int max_rounds = 101;  ///< more only polishes digits
  BuildRecord build;     ///< of the caller, for the result
  std::function<bool()> stop = [] { return false; };
  std::function<void(const std::string& what)> progress = [](const std::string&) {};
};

/// Interleaved rounds over `chosen`, ratios to variant 1, or to the first of them.
Result race(const std::vector<const VariantInfo*>& chosen, const Work& work, const Verification& verification,
            const RaceOptions& options);

}  // namespace ennead::harness
