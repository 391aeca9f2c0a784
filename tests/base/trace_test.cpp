// SPDX-License-Identifier: Apache-2.0
// The trace says what each operation cost, and where it was called.
#include "ennead/trace.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "ennead/ops.h"
#include "support/contexts.h"
#include "support/modules.h"
#include "support/random.h"

namespace ennead {
namespace {

// Mutants: bytes of a broadcast operand counted in full; FLOPs without the factor 2.
TEST(Trace, MatmulByHand) {
  const Context context = test::poisoned_context();
  const auto a = Tensor<float>::full(context, {2, 3, 5}, 1), b = Tensor<float>::full(context, {5, 7}, 1);
  Trace trace;
  context.set_trace(&trace);
  const auto line = std::source_location::current().line() + 1;
  matmul(a, b);
  context.set_trace(nullptr);
  matmul(a, b);
  ASSERT_EQ(trace.events.size(), 1u);
  const TraceEvent& event = trace.events[0];
  EXPECT_EQ(std::string_view(event.op), "matmul");
  EXPECT_EQ(event.where.line(), line);
  EXPECT_NE(std::string_view(event.where.file_name()).find("trace_test.cpp"), std::string_view::npos);
  EXPECT_EQ(event.useful_flops, 2.0 * 2 * 3 * 5 * 7);
  EXPECT_GE(event.executed_flops, event.useful_flops);
  EXPECT_EQ(event.bytes_read, 4 * (2 * 3 * 5 + 5 * 7));
  EXPECT_EQ(event.bytes_written, 4 * 2 * 3 * 7);
  EXPECT_GE(event.bytes_allocated, event.bytes_written);
  EXPECT_GE(event.nanoseconds, 0);
}

// Mutant: rows made contiguous inside the operation's own event, which then gives way to the copy's.
TEST(Trace, CopiesOfOddStridesDoNotHideTheOperation) {
  const Context context = test::poisoned_context();
  const auto x = permute(Tensor<float>::full(context, {2, 3, 4}, 1), {1, 0, 2});
  const Linear<float> linear(Tensor<float>::full(context, {5, 4}, 1));
  Trace trace;
  context.set_trace(&trace);
  linear(x);
  softmax(x);
  context.set_trace(nullptr);
  std::vector<std::string_view> names;
  for (const TraceEvent& event : trace.events) names.emplace_back(event.op);
  EXPECT_EQ(names, (std::vector<std::string_view>{"contiguous", "linear", "contiguous", "softmax"}));
}

TEST(Trace, BroadcastIsReadOnce) {
  const Context context = test::poisoned_context();
  const auto row = Tensor<float>::full(context, {6}, 1);
  const Tensor<float> expanded(row.storage(), row.data(), {100, 6}, {0, 1});
  Trace trace;
  context.set_trace(&trace);
  static_cast<void>(expanded * 2.0);
  context.set_trace(nullptr);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].bytes_read, 24);
  EXPECT_EQ(trace.events[0].bytes_written, 2400);
}

class VariantTrace : public test::OfEachVariant {};
ENNEAD_FOR_EACH_VARIANT(VariantTrace);

// A trace changes no bit, costs follow one another in time, and a dry run reports the same operations
// and bytes as the run, and no fewer FLOPs. Mutant: an operation that reports only when it computes.
TEST_P(VariantTrace, DryRunReportsTheSameCosts) {
  const auto traced = [&](const Context& context) {
    const test::ModuleCase<float> module(context, test::odd_config(33), 2, 33);
    const auto variant = module.make(GetParam());
    Trace trace;
    context.set_trace(&trace);
    const auto y = (*variant)(module.x);
    context.set_trace(nullptr);
    return std::pair(trace.events, y);
  };
  const Context real = test::poisoned_context({.threads = 1});
  const auto [events, y] = traced(real);
  const auto dry_events = traced(test::dry_context()).first;
  const test::ModuleCase<float> module(real, test::odd_config(33), 2, 33);
  EXPECT_TRUE(test::same_bits(y, module.run(GetParam())));
  ASSERT_FALSE(events.empty());
  ASSERT_EQ(events.size(), dry_events.size());
  double flops = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    SCOPED_TRACE(events[i].op);
    EXPECT_EQ(std::string_view(events[i].op), dry_events[i].op);
    // Fused attention counts a whole tile for each pair when there is no mask to look at.
    EXPECT_LE(events[i].useful_flops, dry_events[i].useful_flops);
    EXPECT_LE(events[i].useful_flops, events[i].executed_flops);
    EXPECT_TRUE(!test::is_eager(GetParam()) || events[i].useful_flops == dry_events[i].useful_flops);
    EXPECT_EQ(events[i].bytes_read, dry_events[i].bytes_read);
    EXPECT_EQ(events[i].bytes_written, dry_events[i].bytes_written);
    EXPECT_EQ(events[i].bytes_allocated, dry_events[i].bytes_allocated);
    EXPECT_GE(events[i].start_ns, last);
    last = events[i].start_ns;
    flops += events[i].useful_flops;
  }
  // No variant needs less than the projections and the visible half of both products.
  const double projections = 2.0 * 2 * 33 * 21 * (3 * 11 + 21), pairs = 4.0 * 2 * 21 * 33 * 34 / 2;
  EXPECT_GE(flops, projections + pairs);
}

}  // namespace
}  // namespace ennead
