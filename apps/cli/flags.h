// SPDX-License-Identifier: Apache-2.0
// The shape flags, the same for every command, and the names of variants.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "harness/work.h"

namespace ennead::cli {

using harness::Pass;
using harness::Precision;
using harness::Shape;
using harness::Work;

/// What the flags hold. Lives as long as the CLI::App they were added to.
struct WorkFlags {
  Shape shape;
  std::string pass = "forward", dtype = "float32", isa;
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: available_threads()
};

/// A whole number in [least, most], or the sentence that says what came instead.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// A finite number of seconds above 0.
CLI::Validator positive_seconds();

/// --batch --tokens --d-in --d-out --heads --causal --qkv-bias --dtype --threads --isa --seed
void add_shape_flags(CLI::App& app, WorkFlags& flags);
/// --pass forward|forward-backward
void add_pass_flag(CLI::App& app, WorkFlags& flags);

/// Checks the flags against each other. Throws UsageError.
/// @param app tells which flags were given: --d-out follows --d-in unless it was
Work resolve(const CLI::App& app, const WorkFlags& flags);

/// Finds variants by number or slug; all of them when `names` is empty. Throws UsageError.
std::vector<const VariantInfo*> resolve_variants(const std::vector<std::string>& names);
const VariantInfo& resolve_variant(const std::string& name);

/// Throws UsageError when a variant cannot run this pass.
void require_pass(const std::vector<const VariantInfo*>& chosen, Pass pass);

}  // namespace ennead::cli
