// SPDX-License-Identifier: Apache-2.0
#include "harness/verify.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include "ennead/trace.h"
#include "harness/footprint.h"
#include "harness/numbers.h"
#include "harness/workload.h"
#include "oracle/compare.h"
#include "oracle/oracle.h"

namespace ennead::harness {
namespace {

template <class T>
std::vector<double> doubles(const Tensor<T>& tensor) {
  if (tensor.empty()) return {};
  const T* data = tensor.data();  // weights, x and outputs are row-major
  return std::vector<double>(data, data + tensor.num_elements());
}

/// The oracle's rows of every batch item; items are independent, so they are spread over the threads.
template <class T>
std::vector<oracle::JudgedRows> oracle_rows(const Workload<T>& workload, const std::vector<std::int64_t>& rows) {
  const Weights<T>& weights = workload.weights;
  oracle::Module module;
  module.d_in = workload.config.d_in;
  module.d_out = workload.config.d_out;
  module.num_heads = workload.config.num_heads;
  module.W_query = doubles(weights.W_query);
  module.W_key = doubles(weights.W_key);
  module.W_value = doubles(weights.W_value);
  module.b_query = doubles(weights.b_query);
  module.b_key = doubles(weights.b_key);
  module.b_value = doubles(weights.b_value);
  module.out_weight = doubles(weights.out_proj_weight);
  module.out_bias = doubles(weights.out_proj_bias);
  oracle::Rules rules;
  rules.causal = workload.config.is_causal;

  const std::int64_t batch = workload.x.size(0), num_tokens = workload.x.size(1),
                     item = num_tokens * workload.x.size(2);
  constexpr double kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  std::vector<oracle::JudgedRows> expected(static_cast<std::size_t>(batch));
  std::atomic<bool> no_memory = false;
  const auto one_item = [&](std::int64_t b, int) {
    const T* first = workload.x.data() + b * item;
    try {
      expected[static_cast<std::size_t>(b)] =
          oracle::judged_rows(module, std::vector<double>(first, first + item), 1, num_tokens, rules, rows, kEpsilon);
    } catch (const std::bad_alloc&) {
      no_memory = true;  // a task must not throw
    }
  };
  workload.context.executor().run(batch, one_item);
  if (no_memory)
    raise("check: expected memory for the float64 loops beside the variants, got none; take a smaller shape");
  return expected;
}

/// How far rounding may move any of the sampled rows.
double largest_rounding(const std::vector<oracle::JudgedRows>& items) {
  double largest = 0;
  for (const oracle::JudgedRows& item : items) largest = std::max(largest, item.largest_rounding());
  return largest;
}

/// Compares the sampled rows of one output with the oracle's.
template <class T>
void judge_by_oracle(const Tensor<T>& output, const std::vector<oracle::JudgedRows>& expected,
                     const std::vector<std::int64_t>& rows, const oracle::Tolerance& tolerance, Verdict& verdict) {
  const std::int64_t num_tokens = output.size(1), d_out = output.size(2);
  double closest = -1;  // error / allowed of the worst item so far
  for (std::size_t b = 0; b < expected.size(); ++b) {
    std::vector<double> got;
    got.reserve(expected[b].out.size());
    for (const std::int64_t row : rows) {
      const T* first = output.data() + (static_cast<std::int64_t>(b) * num_tokens + row) * d_out;
      got.insert(got.end(), first, first + d_out);
    }
    const oracle::Comparison comparison = oracle::compare(expected[b].out, got, d_out, tolerance, expected[b].rounding);
    verdict.ok = verdict.ok && comparison.ok;
    verdict.max_abs_err = std::max(verdict.max_abs_err, comparison.max_abs_err);
    const double excess = std::abs(comparison.expected - comparison.got) / comparison.tolerance;
    if (excess > closest || !(excess >= 0)) {
      closest = std::isfinite(excess) ? excess : std::numeric_limits<double>::infinity();
      const std::int64_t row = comparison.worst_row < 0 ? 0 : rows[static_cast<std::size_t>(comparison.worst_row)];
      verdict.worst = sentence("[", b, ", ", row, ", ", comparison.worst_column, "]");
      if (!comparison.ok) {
        verdict.worst += sentence(": expected ", comparison.expected, ", got ", comparison.got);
      }
    }
  }
}

/// The smallest and largest value any variant gave at each place: their largest distance is the
/// largest difference between any two outputs.
template <class T>
class Envelope {
 public:
  void add(const Tensor<T>& output) {
    const std::span<const T> values(output.data(), static_cast<std::size_t>(output.num_elements()));
    if (low_.empty()) {
      low_.assign(values.begin(), values.end());
      high_ = low_;
      return;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      low_[i] = std::min(low_[i], values[i]);
      high_[i] = std::max(high_[i], values[i]);
    }
  }

  double largest_difference() const {
    double largest = 0;
    for (std::size_t i = 0; i < low_.size(); ++i) {
      largest = std::max(largest, static_cast<double>(high_[i]) - static_cast<double>(low_[i]));
    }
    return largest;
  }

 private:
  std::vector<T> low_, high_;
};

/// Compares two outputs in full, a batch item at a time so that the widened copies stay small.
template <class T>
oracle::Comparison compare_outputs(const Tensor<T>& expected, const Tensor<T>& got,
                                   const oracle::Tolerance& tolerance) {
  const std::int64_t item = expected.size(1) * expected.size(2);
  for (std::int64_t b = 0; b < expected.size(0); ++b) {
    const T *e = expected.data() + b * item, *g = got.data() + b * item;
    const oracle::Comparison comparison = oracle::compare(
        std::vector<double>(e, e + item), std::vector<double>(g, g + item), expected.size(2), tolerance);
    if (!comparison.ok) return comparison;
  }
  return {};
}

/// Gradients have no oracle here: they are compared with variant 1's. A sum over thousands of rows
/// in float32 is good to a few hundred units of the last place of its largest number.
template <class T>
void judge_gradients(const std::vector<Tensor<T>>& expected, const std::vector<Tensor<T>>& got, Verdict& verdict) {
  constexpr double kAllowed = 1024 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double largest = 0, difference = 0;
    const std::vector<double> e = doubles(contiguous(expected[i])), g = doubles(contiguous(got[i]));
    for (std::size_t at = 0; at < e.size(); ++at) {
      largest = std::max(largest, std::abs(e[at]));
      const double distance = std::abs(e[at] - g[at]);
      difference = distance <= difference ? difference : distance;  // keeps a NaN
    }
    const double relative = largest > 0 ? difference / largest : difference;
    verdict.gradient_err = relative <= verdict.gradient_err ? verdict.gradient_err : relative;
  }
  if (!(verdict.gradient_err <= kAllowed)) verdict.ok = false;
}

bool fits(std::size_t bytes) { return Arena(Arena::Options{}).check(bytes).ok(); }

/// Throws when the memory is not there. What is taken beside the variants is taken by plain vectors,
/// which no arena counts.
void require_memory_to_verify(const std::vector<const VariantInfo*>& order, const Work& work,
                              const VerifyOptions& options) {
  const std::size_t bytes = bytes_to_verify(order, work, options);
  if (const Refusal refusal = Arena(Arena::Options{}).check(bytes); !refusal.ok()) {
    raise(sentence("checking needs ", bytes, " bytes (", harness::bytes(static_cast<double>(bytes)),
                   ") for this shape, with the float64 loops and the outputs that are kept: ", refusal.reason(),
                   "; a smaller shape or fewer --threads need less"));
  }
}

/// The chosen ones, and before them variant 1, the measure of errors, where there is memory for it.
std::vector<const VariantInfo*> with_first(std::vector<const VariantInfo*> order, const Work& work,
                                           const VerifyOptions& options) {
  const VariantInfo* first = &variants().front();
  if (order.front() == first) return order;
  order.insert(order.begin(), first);
  if (!fits(bytes_to_verify(order, work, options))) order.erase(order.begin());
  return order;
}

template <class T>
Verification verify(const std::vector<const VariantInfo*>& chosen, const Work& work, const VerifyOptions& options) {
  const VariantInfo* first = &variants().front();
  const std::vector<const VariantInfo*> order = with_first(chosen, work, options);
  require_memory_to_verify(order, work, options);
  constexpr double kEpsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  Arena::Options poisoned;
  poisoned.poison = true;
  const Workload<T> workload(work, work.context(poisoned));
  const std::vector<std::int64_t> rows = oracle::sample_rows(work.shape.num_tokens, options.rows);

  Verification result;
  result.rows_checked = static_cast<std::int64_t>(rows.size());
  options.progress("computing the right answer in float64");
  const std::vector<oracle::JudgedRows> expected = oracle_rows(workload, rows);

  std::optional<double> error_of_first;
  PassResult<T> reference;
  Envelope<T> envelope;
  for (const VariantInfo* info : order) {
    if (options.stop()) {
      result.interrupted = true;
      break;
    }
    options.progress(sentence("checking ", info->slug));
    Verdict verdict;
    verdict.info = info;
    verdict.ok = true;
    const std::unique_ptr<Variant<T>> variant = workload.plan(*info);
    Trace trace;
    workload.context.set_trace(&trace);
    PassResult<T> pass = workload.run(*info, variant.get());
    workload.context.set_trace(nullptr);
    for (const TraceEvent& event : trace.events) verdict.executed_flops += event.executed_flops;
    const oracle::Tolerance tolerance =
        error_of_first ? oracle::tolerance_against_first(*error_of_first, kEpsilon) : oracle::first_tolerance(kEpsilon);
    judge_by_oracle(pass.output, expected, rows, tolerance, verdict);
    if (info == first) error_of_first = verdict.max_abs_err;
    if (error_of_first) verdict.times_first = verdict.max_abs_err / *error_of_first;
    const bool wanted = info != first || chosen.front() == first;
    if (wanted) envelope.add(pass.output);
    if (reference.output.empty()) {
      reference = std::move(pass);
    } else {
      const double error = error_of_first.value_or(oracle::first_tolerance(kEpsilon).absolute);
      const oracle::Comparison full = compare_outputs(
          reference.output, pass.output, oracle::tolerance_between(error, kEpsilon, largest_rounding(expected)));
      if (!full.ok && verdict.ok) {
        verdict.ok = false;
        verdict.worst = sentence("differs from ", order.front()->slug, ": ", oracle::describe(full));
      }
      judge_gradients(reference.gradients, pass.gradients, verdict);
    }
    if (wanted) result.verdicts.push_back(verdict);
  }
  result.largest_difference = envelope.largest_difference();
  return result;
}

}  // namespace

bool Verification::ok() const {
  return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) { return verdict.ok; });
}

std::size_t bytes_to_verify(const std::vector<const VariantInfo*>& order, const Work& work,
                            const VerifyOptions& options) {
  // In double: a product past 64 bits stays large instead of wrapping around.
  const Shape& shape = work.shape;
  const double batch = static_cast<double>(shape.batch), tokens = static_cast<double>(shape.num_tokens);
  const double d_in = static_cast<double>(shape.d_in), d_out = static_cast<double>(shape.d_out);
  const double element = work.precision == Precision::float32 ? sizeof(float) : sizeof(double);
  const double wide = sizeof(double), rows = std::min(static_cast<double>(options.rows), tokens);
  const double weights = 3 * d_in * d_out + d_out * d_out + 4 * d_out, x = batch * tokens * d_in;
  const double item = tokens * d_out, output = batch * item, expected = wide * batch * rows * d_out;

  // Each thread that has an item widens its x and holds its keys, values, queries, context, what rounding
  // moves it by, and result; the
  // rows of x that are asked for are gathered in a vector that grows.
  const double items_at_once = std::min(batch, static_cast<double>(work.threads));
  const double loops = wide * items_at_once * (tokens * d_in + 2 * item + 4 * tokens + rows * (2 * d_in + 4 * d_out));
  const double in_oracle = (element + wide) * weights + element * x + loops + expected;

  double largest_pass = 0;
  for (const VariantInfo* info : order) {
    largest_pass = std::max(largest_pass, static_cast<double>(footprint(*info, work).peak_bytes));
  }
  // The extremes of all outputs, the first variant's results, one item of two outputs widened, and of
  // the gradients one of each.
  const bool backward = work.pass == Pass::forward_backward;
  const double gradients =
      backward ? element * (x + weights) + 2 * wide * std::max({x, d_in * d_out, d_out * d_out}) : 0;
  const double kept = 3 * element * output + 2 * wide * item + gradients;
  const double bytes = std::max(in_oracle, largest_pass + kept + expected);
  constexpr double kLargest = 9e18;
  return static_cast<std::size_t>(std::min(bytes, kLargest));
}

Verification verify(const std::vector<const VariantInfo*>& chosen, const Work& work, const VerifyOptions& options) {
  return work.precision == Precision::float32 ? verify<float>(chosen, work, options)
                                              : verify<double>(chosen, work, options);
}

}  // namespace ennead::harness
