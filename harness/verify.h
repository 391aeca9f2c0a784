// SPDX-License-Identifier: Apache-2.0
// Are the answers right? Every variant against the float64 oracle, and against each other in full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ennead/variants.h"
#include "harness/work.h"

namespace ennead::harness {

struct Verdict {
  const VariantInfo* info = nullptr;
  bool ok = false;
  double max_abs_err = 0;     ///< against the oracle, over the rows it was asked for
  double times_first = 0;     ///< max_abs_err / that of variant 1
  std::string worst;          ///< where it is worst; when it is wrong, what was expected and what came
  double executed_flops = 0;  ///< what the pass did, from its trace
  double gradient_err = 0;    ///< largest difference to variant 1's gradients, relative to their largest
};

struct Verification {
  std::vector<Verdict> verdicts;
  double largest_difference = 0;  ///< between any two outputs, over all their numbers
  std::int64_t rows_checked = 0;  ///< rows per batch item the oracle computed
  bool interrupted = false;

  bool ok() const;
};

struct VerifyOptions {
  std::int64_t rows = 64;  ///< per batch item, first and last among them
  std::function<bool()> stop = [] { return false; };
  std::function<void(const std::string& what)> progress = [](const std::string&) {};
};

/// The memory it takes to verify `order`: weights, x, the passes, the float64 loops and what is kept to
/// compare with. What the arena holds unused is not counted, since it gives that back.
std::size_t bytes_to_verify(const std::vector<const VariantInfo*>& order, const Work& work,
                            const VerifyOptions& options);

/// Runs each variant once on memory filled with NaN. Variant 1 is the measure of the others' errors,
/// so it is run too when it is not among them and fits the memory.
/// Throws Error before anything is taken when bytes_to_verify() are not there.
Verification verify(const std::vector<const VariantInfo*>& chosen, const Work& work, const VerifyOptions& options);

}  // namespace ennead::harness
