// SPDX-License-Identifier: Apache-2.0
// Everything a computation needs besides its operands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ennead/arena.h"
#include "ennead/cpu.h"
#include "ennead/executor.h"
#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

class Tape;
class Trace;

/// Memory, threads, instruction set, random seed, and optionally a tape (gradients) and a trace
/// (costs). A cheap handle: copies share one state. Tensors carry it; operations find it in their
/// first operand. There is no global state: two contexts on two threads are independent, and one
/// context is used by one thread at a time.
class Context {
 public:
  struct Options {
    /// Who runs the work; when null, a pool of `threads` threads (0: available_threads()).
    std::shared_ptr<Executor> executor = nullptr;
    int threads = 0;
    /// default_isa() when not given; the next one where that is amx by default and the system refuses tile registers.
    std::optional<Isa> isa = std::nullopt;
    std::uint64_t seed = 0;  ///< keys dropout
    Arena::Options arena = {};
  };

  Context();
  /// Throws Error when the threads, the executor's num_threads() or the instruction set are refused.
  explicit Context(const Options& options);

  Executor& executor() const;
  const std::shared_ptr<Executor>& executor_ptr() const;
  Arena& arena() const;
  Isa isa() const;
  std::uint64_t seed() const;
  void set_seed(std::uint64_t seed) const;

  /// In a dry run operations allocate and record but compute nothing: exact memory and FLOPs
  /// without the work.
  bool dry_run() const { return arena().dry_run(); }

  /// Where operations record themselves for gradients; nullptr when none are wanted. Not owned.
  Tape* tape() const;
  void set_tape(Tape* tape) const;

  /// Where operations report what they cost; nullptr when nobody asks. Not owned.
  Trace* trace() const;
  void set_trace(Trace* trace) const;

  bool operator==(const Context& other) const { return state_ == other.state_; }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ennead
ENNEAD_API_END
