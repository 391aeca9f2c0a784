// SPDX-License-Identifier: Apache-2.0
// multi_head_attention(), the module as one call, against the oracle's module.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "ennead/attention.h"
#include "ennead/tape.h"
#include "ennead/trace.h"
#include "support/attention.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/guarded.h"
#include "support/modules.h"

namespace ennead {
namespace {

using test::attention_tolerance;
using test::close;
using test::same_bits;

template <class T>
class MultiHeadAttention : public testing::Test {
 protected:
  Context context_ = test::poisoned_context();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(MultiHeadAttention, Types);

// Head sizes and lengths off every tile, d_in unlike d_out, each bias on and off, with and without the
// mask. Mutants: Q's bias for K's; the mask always on; d_in taken for d_out.
TYPED_TEST(MultiHeadAttention, MatchesTheOracle) {
  std::uint64_t seed = 1;
  for (const std::int64_t num_tokens : {1, 2, 17, 64, 129}) {
    for (const std::int64_t head_dim : {1, 24, 63}) {
      for (const bool flag : {false, true}) {
        const Config config{.d_in = 40,
                            .d_out = 3 * head_dim,
                            .num_heads = 3,
                            .qkv_bias = flag,
                            .out_bias = num_tokens % 2 == 0,
                            .is_causal = num_tokens == 17 ? !flag : true};
        SCOPED_TRACE(sentence(num_tokens, " tokens, head_dim ", head_dim, ", qkv_bias ", flag));
        const test::ModuleCase<TypeParam> one(this->context_, config, 2, num_tokens, seed++);
        const PackedModule<TypeParam> module(config, one.weights);
        EXPECT_TRUE(close(one.expected(), multi_head_attention(one.x, module), attention_tolerance<TypeParam>()));
      }
    }
  }
}

// The caller's own memory, strided, gets the same bits and nothing beside them.
TYPED_TEST(MultiHeadAttention, ViewsOfTheCallersMemory) {
  const Config config{.d_in = 10, .d_out = 12, .num_heads = 3};
  const PackedModule<TypeParam> module(config, Weights<TypeParam>::random(this->context_, config, 5));
  test::Random random(29);
  const auto x = test::random_tensor<TypeParam>(this->context_, {2, 7, 10}, random);
  const auto expected = multi_head_attention(x, module);
  for (const test::Layout layout : test::kLayouts) {
    test::Guarded<TypeParam> memory(2 * 7 * 12);
    multi_head_attention(test::with_layout(x, layout).template view<3>(), module,
                         View<TypeParam, 3>::contiguous(memory.data(), {2, 7, 12}));
    EXPECT_TRUE(memory.intact());
    EXPECT_TRUE(same_bits(
        expected, Tensor<TypeParam>::from(this->context_, {2, 7, 12}, std::span<const TypeParam>(memory.span()))));
  }
  // Written backwards: out need not be contiguous either.
  auto out = test::with_layout(expected, test::Layout::reversed);
  test::for_each_index(out.sizes(), [&](const Dims& at) { test::element(out, at) = TypeParam{-1}; });
  multi_head_attention(x.template view<3>(), module, out.template view<3>());
  EXPECT_TRUE(same_bits(expected, out));
}

// x and out in the same memory: all of x is read before anything is written. Mutant: a head that writes its
// output before the next one has read x.
TYPED_TEST(MultiHeadAttention, InPlace) {
  const Config config{.d_in = 12, .d_out = 12, .num_heads = 3};
  test::Random random(31);
  for (const Isa isa : supported_isas()) {
    const Context context(Context::Options{.threads = 3, .isa = isa});
    const PackedModule<TypeParam> module(config, Weights<TypeParam>::random(context, config, 5));
    const auto x = test::random_tensor<TypeParam>(context, {2, 70, 12}, random);
    const auto expected = multi_head_attention(x, module);
    multi_head_attention(x.template view<3>(), module, x.template view<3>());
    EXPECT_TRUE(same_bits(expected, x)) << name(isa);
  }
}

// Every wrong View is refused, by the function with the checker's sentence, and nothing is written.
// Mutants: a null pointer is followed; an axis of stride 0 is written again and again.
TYPED_TEST(MultiHeadAttention, WrongViewsAreRefused) {
  using In = View<const TypeParam, 3>;
  using Out = View<TypeParam, 3>;
  const Config config{.d_in = 10, .d_out = 12, .num_heads = 3};
  const PackedModule<TypeParam> module(config, Weights<TypeParam>::random(this->context_, config, 5));
  const std::vector<TypeParam> x(2 * 7 * 10, TypeParam(0.5));
  test::Guarded<TypeParam> memory(2 * 7 * 12);
  const auto good_x = In::contiguous(x.data(), {2, 7, 10});
  const auto good_out = Out::contiguous(memory.data(), {2, 7, 12});
  const struct {
    In x;
    Out out;
    const char* words;
  } cases[] = {
      {In::contiguous(nullptr, {2, 7, 10}), good_out, "expected memory for x [2, 7, 10], got a null pointer"},
      {good_x, Out::contiguous(nullptr, {2, 7, 12}), "expected memory for out [2, 7, 12], got a null pointer"},
      {In(), good_out, "expected x [batch, num_tokens, 10], got [0, 0, 0]"},
      {In::contiguous(x.data(), {2, -7, 10}), good_out, "expected x with sizes of 0 or more, got [2, -7, 10]"},
      {In::contiguous(x.data(), {2, 7, 9}), good_out, "expected x [batch, num_tokens, 10], got [2, 7, 9]"},
      {good_x, Out::contiguous(memory.data(), {2, 6, 12}), "expected out [2, 7, 12], got [2, 6, 12]"},
      {good_x, Out::contiguous(memory.data(), {-2, -7, 12}), "expected out [2, 7, 12], got [-2, -7, 12]"},
      {good_x, {memory.data(), {2, 7, 12}, {84, 0, 1}}, "expected out with strides that keep its elements apart"},
      {good_x, {memory.data(), {2, 7, 12}, {0, 12, 1}}, "expected out with strides that keep its elements apart"},
      {In::contiguous(x.data(), {std::int64_t{1} << 60, std::int64_t{1} << 60, 10}), good_out, "can be addressed"},
  };
  for (const auto& one : cases) {
    EXPECT_TRUE(test::refuses(
        [&] { multi_head_attention(one.x, module, one.out); },
        {"multi_head_attention: ", one.words, check_multi_head_attention(one.x, module, one.out).reason()}));
    EXPECT_TRUE(memory.intact());
    for (const TypeParam value : memory.span()) EXPECT_TRUE(std::isnan(value));
  }
  multi_head_attention(In::contiguous(nullptr, {2, 0, 10}), module, Out::contiguous(nullptr, {2, 0, 12}));
}

TYPED_TEST(MultiHeadAttention, NothingToDo) {
  const Config config{.d_in = 10, .d_out = 12, .num_heads = 3};
  const PackedModule<TypeParam> module(config, Weights<TypeParam>::random(this->context_, config, 5));
  const auto no_tokens = Tensor<TypeParam>::uninitialized(this->context_, {2, 0, 10});
  EXPECT_EQ(multi_head_attention(no_tokens, module).sizes(), (Dims{2, 0, 12}));
  const auto no_batch = Tensor<TypeParam>::uninitialized(this->context_, {0, 4, 10});
  EXPECT_EQ(multi_head_attention(no_batch, module).sizes(), (Dims{0, 4, 12}));
}

#if defined(__linux__)
// A system without huge pages: advice is not followed and nothing changes. The mutant is memory that must be huge.
TYPED_TEST(MultiHeadAttention, HugePagesAbsent) {
  const Config config{.d_in = 64, .d_out = 64, .num_heads = 2};
  const auto run = [&] {
    const Context context;  // an arena of its own
    const PackedModule<TypeParam> module(config, Weights<TypeParam>::random(context, config, 5));
    const auto x = Tensor<TypeParam>::full(context, {32, 300, 64}, TypeParam(0.5));  // more than a huge page
    const auto out = multi_head_attention(x, module);
    return std::vector<TypeParam>(out.data(), out.data() + out.num_elements());
  };
  const auto expected = run();
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  const auto without = run();
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
  EXPECT_EQ(without, expected);
}
#endif

// Repeated calls take nothing from the system. Mutant: scratch that is not given back.
TYPED_TEST(MultiHeadAttention, RepeatedCallsTakeNoMemory) {
  const Config config{.d_in = 16, .d_out = 16, .num_heads = 2};
  const PackedModule<TypeParam> module(config, Weights<TypeParam>::random(this->context_, config, 5));
  const auto x = Tensor<TypeParam>::full(this->context_, {2, 9, 16}, 1);
  multi_head_attention(x, module);
  const std::size_t in_use = this->context_.arena().bytes_in_use(), peak = this->context_.arena().peak_bytes();
  for (int call = 0; call < 3; ++call) multi_head_attention(x, module);
  EXPECT_EQ(this->context_.arena().bytes_in_use(), in_use);
  EXPECT_EQ(this->context_.arena().peak_bytes(), peak);
}

TYPED_TEST(MultiHeadAttention, Trace) {
  const Config config{.d_in = 10, .d_out = 12, .num_heads = 3};
  const PackedModule<TypeParam> module(config, Weights<TypeParam>::random(this->context_, config, 5));
  Trace trace;
  this->context_.set_trace(&trace);
  multi_head_attention(Tensor<TypeParam>::full(this->context_, {2, 7, 10}, 1), module);
  this->context_.set_trace(nullptr);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_STREQ(trace.events[0].op, "multi_head_attention");
  EXPECT_EQ(trace.events[0].useful_flops, 2.0 * 2 * 7 * 12 * (3 * 10 + 12) + 4.0 * 2 * 3 * 28 * 4);
}

TYPED_TEST(MultiHeadAttention, RefusesInOneSentence) {
  const Config config{.d_in = 10, .d_out = 12, .num_heads = 3};
  auto weights = Weights<TypeParam>::random(this->context_, config, 5);
  const PackedModule<TypeParam> module(config, weights);
  auto x = Tensor<TypeParam>::full(this->context_, {2, 7, 10}, 1);
  EXPECT_TRUE(test::refuses([&] { multi_head_attention(narrow(x, 2, 0, 9), module); },
                            {"multi_head_attention: expected x [batch, num_tokens, 10], got [2, 7, 9]"}));
  EXPECT_TRUE(test::refuses([&] { multi_head_attention(Tensor<TypeParam>(), module); }, {"got an empty handle"}));
  EXPECT_TRUE(test::refuses([&] { multi_head_attention(x.template view<3>(), module, x.template view<3>()); },
                            {"expected out [2, 7, 12], got [2, 7, 10]"}));
  EXPECT_TRUE(test::refuses([&] { PackedModule<TypeParam>({.d_in = 10, .d_out = 12, .num_heads = 5}, weights); }));
  EXPECT_TRUE(test::refuses([&] { PackedModule<TypeParam>({.d_in = 11, .d_out = 12, .num_heads = 3}, weights); }));

  // A gradient that would be missing in silence: of x, and of the weights.
  Tape tape;
  this->context_.set_tape(&tape);
  tape.watch(x);
  EXPECT_TRUE(test::refuses([&] { multi_head_attention(x, module); }, {"expected operands without a gradient"}));
  tape.watch(weights.b_query.empty() ? weights.W_key : weights.b_query);
  EXPECT_TRUE(
      test::refuses([&] { PackedModule<TypeParam>(config, weights); }, {"expected operands without a gradient"}));
  this->context_.set_tape(nullptr);
}

}  // namespace
}  // namespace ennead
