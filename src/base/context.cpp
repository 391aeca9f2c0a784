// SPDX-License-Identifier: Apache-2.0
#include "ennead/context.h"

#include "base/cpu_features.h"

namespace ennead {

struct Context::State {
  explicit State(const Options& options)
      : executor(options.executor ? options.executor
                                  : make_thread_pool(options.threads > 0 ? options.threads : available_threads())),
        arena(options.arena),
        isa(base::take_isa(options.isa)),
        seed(options.seed) {}

  std::shared_ptr<Executor> executor;
  Arena arena;
  Isa isa;
  std::uint64_t seed;
  Tape* tape = nullptr;
  Trace* trace = nullptr;
};

Context::Context() : Context(Options{}) {}
Context::Context(const Options& options) {
  if (options.threads < 0) raise(sentence("threads: expected 0 (all available) or more, got ", options.threads));
  if (options.executor && options.executor->num_threads() < 1) {
    raise(sentence("executor: expected num_threads() of 1 or more (a calling thread that works counts), got ",
                   options.executor->num_threads()));
  }
  state_ = std::make_shared<State>(options);
}

Executor& Context::executor() const { return *state_->executor; }
const std::shared_ptr<Executor>& Context::executor_ptr() const { return state_->executor; }
Arena& Context::arena() const { return state_->arena; }
Isa Context::isa() const { return state_->isa; }
std::uint64_t Context::seed() const { return state_->seed; }
void Context::set_seed(std::uint64_t seed) const { state_->seed = seed; }
Tape* Context::tape() const { return state_->tape; }
void Context::set_tape(Tape* tape) const { state_->tape = tape; }
Trace* Context::trace() const { return state_->trace; }
void Context::set_trace(Trace* trace) const { state_->trace = trace; }

}  // namespace ennead
