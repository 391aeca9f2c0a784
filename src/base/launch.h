// SPDX-License-Identifier: Apache-2.0
// What every operation does around its kernel: report to the trace, and skip the work in a dry run.
#pragma once

#include <algorithm>
#include <source_location>
#include <utility>

#include "base/exact_arithmetic.h"
#include "ennead/tensor.h"
#include "ennead/trace.h"

namespace ennead::base {

/// Opens when an operation begins (before it allocates) and closes when it ends.
///
///     Launch launch(x.context(), "softmax", where);
///     auto y = Tensor<T>::uninitialized(...);
///     launch.reads(x).writes(y).flops(5.0 * n);
///     launch.run([&] { kernel(...); });
class Launch {
 public:
  Launch(const Context& context, const char* op, std::source_location where)
      : context_(context), trace_(context.trace()) {
    if (trace_ == nullptr) return;
    event_.op = op;
    event_.where = where;
    event_.start_ns = trace_->now();
    allocated_before_ = context.arena().total_bytes();
    // Operations made of others show as those others.
    nested_events_ = trace_->events.size();
  }

  ~Launch() {
    if (trace_ == nullptr || trace_->events.size() != nested_events_) return;
    event_.nanoseconds = trace_->now() - event_.start_ns;
    event_.bytes_allocated = static_cast<std::int64_t>(context_.arena().total_bytes() - allocated_before_);
    trace_->events.push_back(std::move(event_));
  }

  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  template <class T>
  Launch& reads(const Tensor<T>& x) {
    if (trace_ != nullptr) note(x.sizes(), distinct_bytes(x), false);
    return *this;
  }
  template <class T>
  Launch& writes(const Tensor<T>& x) {
    if (trace_ != nullptr) note(x.sizes(), distinct_bytes(x), true);
    return *this;
  }
  Launch& flops(double useful, double executed) {
    event_.useful_flops = useful;
    event_.executed_flops = executed;
    return *this;
  }
  Launch& flops(double both) { return flops(both, both); }

  template <class F>
  void run(F&& compute) {
    if (!context_.dry_run()) std::forward<F>(compute)();
  }

 private:
  // A broadcast axis (stride 0) is read once.
  template <class T>
  static std::int64_t distinct_bytes(const Tensor<T>& x) {
    std::int64_t elements = 1;
    for (int axis = 0; axis < x.rank(); ++axis) {
      elements *= x.stride(axis) == 0 ? std::min<std::int64_t>(x.size(axis), 1) : x.size(axis);
    }
    return elements * static_cast<std::int64_t>(sizeof(T));
  }

  void note(const Dims& sizes, std::int64_t bytes, bool written) {
    (written ? event_.bytes_written : event_.bytes_read) += bytes;
    event_.operands.push_back({sizes, bytes, written});
  }

  const Context& context_;
  Trace* trace_;
  TraceEvent event_;
  std::size_t allocated_before_ = 0, nested_events_ = 0;
};

}  // namespace ennead::base
