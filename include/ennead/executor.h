// SPDX-License-Identifier: Apache-2.0
// Who runs the pieces of work: this thread, a pool, or the caller's own threads.
#pragma once

#include <cstdint>
#include <memory>

#include "ennead/export.h"
#include "ennead/function_ref.h"

ENNEAD_API_BEGIN
namespace ennead {

/// One piece of work: task(index, worker). `worker` is in [0, num_threads()) and no two running
/// tasks share it, so it may pick scratch memory. A task must not throw and must not call run().
using Task = FunctionRef<void(std::int64_t index, int worker)>;

/// Runs independent tasks. Derive from it to lend ennead your own threads.
class Executor {
 public:
  virtual ~Executor() = default;

  /// How many tasks may run at once, the calling thread among them where it works too. >= 1, always the same.
  virtual int num_threads() const noexcept = 0;

  /// Calls task(0, ...), ..., task(n - 1, ...), each once, and returns when all are done. Indices
  /// are handed out in ascending order as workers become free, so order work longest first.
  /// Results must not depend on which worker ran what.
  virtual void run(std::int64_t n, Task task) = 0;
};

/// Runs everything on the calling thread.
std::shared_ptr<Executor> make_serial_executor();

/// A pool of `threads` workers, the calling thread being worker 0. Workers sleep between runs.
/// Several threads may call run(); their runs follow one another.
std::shared_ptr<Executor> make_thread_pool(int threads);

}  // namespace ennead
ENNEAD_API_END
