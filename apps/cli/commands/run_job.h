// SPDX-License-Identifier: Apache-2.0
// One pass of a variant over files: what was asked for, after the command line was checked.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ennead/weight_files.h"
#include "harness/work.h"

namespace ennead::cli {

/// What true means in a boolean mask.
enum class MaskMeaning { allow, block };

/// A mask in a file; no path: none.
struct MaskFile {
  std::string path;
  std::optional<MaskMeaning> means;
};

struct RunJob {
  const VariantInfo* variant = nullptr;
  std::string input, weights;
  std::string output, attn_weights;  ///< attn_weights empty: not asked for
  MaskFile mask, key_padding_mask;
  bool per_head = false;  ///< attention weights of every head, not their mean
  bool is_causal = true;
  WeightSource source;
  /// Shape flags that were given, and what they say: the files must agree.
  std::vector<std::pair<std::string, std::int64_t>> expected;
  harness::Work work;  ///< threads, instruction set and element type; the shape comes from the files
};

struct RunHooks {
  std::function<void(const std::string&)> warn;
  std::function<void(const std::string&)> progress;
  std::function<bool()> stop = [] { return false; };  ///< asked between the pieces of the work
};

/// Reads, computes, writes. Outputs appear under their names when all are complete, or not at all.
/// Throws Error and UsageError. @return false when stop() ended it, and nothing is there
template <class T>
bool run_job(const RunJob& job, const RunHooks& hooks);

}  // namespace ennead::cli
