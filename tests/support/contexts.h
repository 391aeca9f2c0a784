// SPDX-License-Identifier: Apache-2.0
// Contexts that make faults visible, and loops over what this machine can run.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ennead/context.h"

namespace ennead::test {

struct ContextOptions {
  int threads = 2;
  std::optional<Isa> isa = std::nullopt;
  std::uint64_t seed = 1;
};

/// Every block of its arena holds NaN before it is handed out, so that what is not written shows.
inline Context poisoned_context(const ContextOptions& options = {}) {
  Context::Options all;
  all.threads = options.threads;
  all.isa = options.isa;
  all.seed = options.seed;
  all.arena.poison = true;
  return Context(all);
}

/// A context that counts memory and computes nothing.
inline Context dry_context() {
  Context::Options options;
  options.threads = 1;
  options.arena.dry_run = true;
  return Context(options);
}

/// Calls body(isa) for every instruction set this process may use, named in the message of a failure.
template <class Body>
void for_each_isa(Body&& body) {
  for (const Isa isa : supported_isas()) {
    if (!request_isa(isa).ok()) continue;
    SCOPED_TRACE("isa " + std::string(name(isa)));
    body(isa);
  }
}

}  // namespace ennead::test
