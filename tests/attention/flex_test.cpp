// SPDX-License-Identifier: Apache-2.0
// FlexAttention: block masks and score mods, with the same lambda in float64 for the oracle.
#include "ennead/flex.h"

#include <gtest/gtest.h>

#include <limits>

#include "ennead/tape.h"
#include "ennead/trace.h"
#include "support/attention.h"
#include "support/contexts.h"
#include "support/expect.h"

namespace ennead {
namespace {

using test::attention_tolerance;
using test::close;
using test::copy_of;
using test::same_bits;
using Kind = BlockMask::Kind;

const oracle::Tolerance kSixDigits{6e-7, 6e-7};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr auto kEverything = [](auto, auto, auto, auto) { return true; };
constexpr auto kDistance = [](auto score, auto, auto, auto q, auto k) {
  return score + static_cast<decltype(score)>(q - k) / 16;
};

template <class T>
class Flex : public testing::Test {
 protected:
  Context context_ = test::poisoned_context();
  test::Random random_{19};

  /// Output and log-sum-exp must be what the oracle says of the same two callables.
  template <class ScoreModT, class MaskMod>
  void expect_right(const test::Operands<T>& operands, const ScoreModT& score_mod, const MaskMod& mask_mod,
                    const BlockMask& block_mask, FlexOptions options = {}) {
    oracle::Rules rules;
    rules.scale = options.scale;
    rules.allow = [&](auto... at) { return mask_mod(static_cast<FlexIndex>(at)...); };
    if constexpr (!std::is_same_v<ScoreModT, NoScoreMod>) {
      rules.score_mod = [&](double score, auto... at) { return score_mod(score, static_cast<FlexIndex>(at)...); };
    }
    options.return_lse = true;
    const auto expected = test::expected_attention(operands, rules);
    const auto got = flex_attention(operands.query, operands.key, operands.value, score_mod, block_mask, options);
    EXPECT_TRUE(close(expected.out, got.output, attention_tolerance<T>()));
    EXPECT_TRUE(close(expected.lse, got.lse, attention_tolerance<T>()));
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Flex, Types);

TYPED_TEST(Flex, GoldenCausal) {
  const auto operands = test::golden_operands<TypeParam>(this->context_);
  const auto mask = create_block_mask(this->context_, CausalMask{}, 1, 1, 4, 4);
  const auto got = flex_attention(operands.query, operands.key, operands.value, no_score_mod, mask);
  EXPECT_TRUE(close({1, 10, 1.107042, 11.070418, 2.203336, 22.033363, 2.628058, 26.280581}, got.output, kSixDigits));
  EXPECT_TRUE(got.lse.empty());
}

// "Window 2" is two keys, the token itself among them. Mutant: one key more.
TYPED_TEST(Flex, GoldenWindow) {
  const auto operands = test::golden_operands<TypeParam>(this->context_);
  const auto window = [&](FlexIndex keys) {
    const auto mask = create_block_mask(this->context_, SlidingWindowMask{keys}, 1, 1, 4, 4);
    return flex_attention(operands.query, operands.key, operands.value, no_score_mod, mask).output;
  };
  EXPECT_TRUE(close({1, 10, 1.107042, 11.070418, 2.5, 25, 3.195570, 31.955702}, window(2), kSixDigits));
  EXPECT_TRUE(close({2.856034, 28.560341}, narrow(window(3), 2, 3, 1), kSixDigits));
  EXPECT_TRUE(close(test::to_doubles(operands.value), window(1), kSixDigits));
  EXPECT_TRUE(same_bits(window(4), window(5)));
  EXPECT_TRUE(close({2.628058, 26.280581}, narrow(window(4), 2, 3, 1), kSixDigits));
}

// Lengths that no block size divides, with a mask and a score mod. Mutants: the last block's tail; keys
// beyond the length seen by the score mod.
TYPED_TEST(Flex, OddSizes) {
  for (const std::int64_t length : {1, 2, 3, 7, 16, 17, 63, 65, 127, 128, 129, 257}) {
    SCOPED_TRACE(length);
    const auto operands =
        test::random_operands<TypeParam>(this->context_, {2, 2, 2, length, length, 24, 24}, this->random_);
    const auto mask = create_block_mask(this->context_, CausalMask{}, 1, 1, length, length);
    this->expect_right(operands, kDistance, CausalMask{}, mask);
    this->expect_right(operands, no_score_mod, CausalMask{}, mask);
    this->expect_right(operands, kDistance, kEverything, BlockMask{});
  }
}

// The length of a public report, 1025, that is no multiple of the block.
TYPED_TEST(Flex, OneMoreThanEightBlocks) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {1, 1, 1, 1025, 1025, 64, 64}, this->random_);
  this->expect_right(operands, kDistance, CausalMask{},
                     create_block_mask(this->context_, CausalMask{}, 1, 1, 1025, 1025), {.scale = 0.1});
}

TYPED_TEST(Flex, QueriesAndKeysOfDifferentNumber) {
  for (const auto& [num_queries, num_keys] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 300}, {70, 200}, {200, 70}, {3, 0}}) {
    SCOPED_TRACE(sentence(num_queries, " queries, ", num_keys, " keys"));
    const auto operands =
        test::random_operands<TypeParam>(this->context_, {2, 4, 2, num_queries, num_keys, 16, 8}, this->random_);
    const auto near = [](auto, auto, auto q, auto k) { return k - q < 5 && q - k < 100; };
    this->expect_right(operands, kDistance, near, create_block_mask(this->context_, near, 1, 1, num_queries, num_keys),
                       {.enable_gqa = true});
  }
}

// A pattern without any order, one for each head of each batch item, and a score mod that reads a
// captured table. Mutants: the mask of another head; block (q, k) read as (k, q).
TYPED_TEST(Flex, RandomPatternAndCapturedTable) {
  for (const std::int64_t block_size : {16, 128, 100}) {
    const auto operands = test::random_operands<TypeParam>(this->context_, {2, 3, 3, 150, 141, 8, 8}, this->random_);
    const auto blocks = test::random_mask(this->context_, {2, 3, 10, 10}, this->random_, 0.6);
    const auto points = test::random_mask(this->context_, {150, 141}, this->random_, 0.8);
    const auto mask_mod = [&](auto b, auto h, auto q, auto k) {
      return blocks.at({b, h, q / 16, k / 16}) && (q / 16 % 2 == 0 || points.at({q, k}));
    };
    std::vector<double> table;
    for (int i = 0; i < 300; ++i) table.push_back(this->random_.normal());
    const auto score_mod = [&table](auto score, auto, auto h, auto q, auto k) {
      using Score = decltype(score);
      return score * static_cast<Score>(h + 1) / 2 + static_cast<Score>(table[static_cast<std::size_t>(q - k + 140)]);
    };
    this->expect_right(operands, score_mod, mask_mod,
                       create_block_mask(this->context_, mask_mod, 2, 3, 150, 141, block_size));
  }
}

// A score mod may be any callable with state; each kind of capture reaches the tile.
TYPED_TEST(Flex, ScoreModsWithState) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {1, 2, 2, 20, 20, 8, 8}, this->random_);
  const double cap = 0.5;
  this->expect_right(
      operands,
      [cap](auto score, auto, auto, auto, auto) {
        return static_cast<decltype(score)>(cap * std::tanh(static_cast<double>(score) / cap));
      },
      kEverything, BlockMask{});
  const std::vector<float> slopes{0.5f, 0.25f};  // not trivially copyable: used in place
  this->expect_right(
      operands,
      [slopes](auto score, auto, auto h, auto q, auto k) {
        return score -
               static_cast<decltype(score)>(slopes[static_cast<std::size_t>(h)]) * static_cast<decltype(score)>(q - k);
      },
      CausalMask{}, create_block_mask(this->context_, CausalMask{}, 1, 1, 20, 20));
}

// Capping comes before masking, or a blocked score of -inf becomes -cap and the future leaks.
TYPED_TEST(Flex, CapDoesNotUndoTheMask) {
  const test::Operands<TypeParam> operands{test::from_doubles<TypeParam>(this->context_, {1, 1, 2, 2}, {1, 0, 1, 0}),
                                           test::from_doubles<TypeParam>(this->context_, {1, 1, 2, 2}, {1, 0, 3, 0}),
                                           test::from_doubles<TypeParam>(this->context_, {1, 1, 2, 2}, {1, 0, 0, 1})};
  const auto cap = [](auto score, auto, auto, auto, auto) { return std::tanh(score); };
  const auto mask = create_block_mask(this->context_, CausalMask{}, 1, 1, 2, 2);
  const auto got = flex_attention(operands.query, operands.key, operands.value, cap, mask, {.scale = 1.0});
  EXPECT_TRUE(close({1, 0}, narrow(got.output, 2, 0, 1), {}));
}

// What a block mask blocks is not read, in empty and in partial blocks; rows without a key are zero.
TYPED_TEST(Flex, NothingBehindAMaskIsRead) {
  auto operands = test::random_operands<TypeParam>(this->context_, {1, 1, 1, 40, 40, 8, 8}, this->random_);
  const auto mask_mod = [](auto, auto, auto q, auto k) { return k < 20 && k != 3 && q != 7; };
  const auto mask = create_block_mask(this->context_, mask_mod, 1, 1, 40, 40, 16);
  this->expect_right(operands, kDistance, mask_mod, mask);
  const auto before = flex_attention(operands.query, operands.key, operands.value, kDistance, mask);
  for (const std::int64_t key : {3, 20, 39}) {
    operands.key.at({0, 0, key, 1}) = static_cast<TypeParam>(kNaN);
    operands.value.at({0, 0, key, 2}) = static_cast<TypeParam>(kNaN);
  }
  const auto after = flex_attention(operands.query, operands.key, operands.value, kDistance, mask);
  EXPECT_TRUE(same_bits(before.output, after.output));
}

// The block mask says the same as is_causal, at the same cost in bits: none.
TYPED_TEST(Flex, CausalIsIsCausal) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 2, 2, 200, 200, 16, 16}, this->random_);
  const auto mask = create_block_mask(this->context_, CausalMask{}, 1, 1, 200, 200);
  const auto causal =
      scaled_dot_product_attention<TypeParam>(operands.query, operands.key, operands.value, {.is_causal = true});
  const auto flex = flex_attention(operands.query, operands.key, operands.value, no_score_mod, mask);
  EXPECT_TRUE(close(test::to_doubles(causal.output), flex.output, test::rounding<TypeParam>(4)));
}

TYPED_TEST(Flex, SameBitsForAnyThreadsAndNeighbours) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {3, 2, 2, 140, 140, 8, 8}, this->random_);
  const auto run = [&](const test::Operands<TypeParam>& of) {
    const auto mask = create_block_mask(of.query.context(), CausalMask{}, 1, 1, 140, 140);
    return flex_attention(of.query, of.key, of.value, kDistance, mask).output;
  };
  const auto expected = run(operands);
  for (const int threads : {1, 3, 8}) {
    const Context other = test::poisoned_context({.threads = threads});
    EXPECT_TRUE(same_bits(
        expected, run({copy_of(operands.query, other), copy_of(operands.key, other), copy_of(operands.value, other)})));
  }
  EXPECT_TRUE(same_bits(narrow(expected, 0, 2, 1), run({narrow(operands.query, 0, 2, 1), narrow(operands.key, 0, 2, 1),
                                                        narrow(operands.value, 0, 2, 1)})));
}

TYPED_TEST(Flex, RefusesInOneSentence) {
  auto operands = test::random_operands<TypeParam>(this->context_, {2, 4, 4, 8, 8, 2, 2}, this->random_);
  const auto refusal = [&](const BlockMask& mask) {
    return check_flex_attention(operands.query, operands.key, operands.value, mask, {}).reason();
  };
  const auto mask = [&](std::int64_t batch, std::int64_t heads, std::int64_t num_queries, std::int64_t num_keys) {
    return create_block_mask(this->context_, kEverything, batch, heads, num_queries, num_keys);
  };
  EXPECT_EQ(refusal(mask(2, 4, 8, 8)), "");
  EXPECT_EQ(refusal(mask(1, 1, 16, 16)),
            "flex_attention: expected a block mask for 8 queries and 8 keys, got one for 16 and 16");
  EXPECT_EQ(refusal(mask(4, 2, 8, 8)),
            "flex_attention: expected a block mask for batch 2 and 4 heads, each or 1, got one for 4 and 2");
  EXPECT_TRUE(test::refuses([&] { mask(0, 1, 8, 8); },
                            {"create_block_mask: expected a batch and heads of at least 1", "got 0 and 1"}));
  EXPECT_TRUE(test::refuses([&] { create_block_mask(this->context_, kEverything, 1, 1, 8, 8, 0); },
                            {"expected a block_size from 1 to 2147483647, got 0"}));
  EXPECT_TRUE(test::refuses([&] { mask(1, 1, 8, std::int64_t{1} << 40); },
                            {"expected numbers of queries and keys from 0 to 2147483647, got 8 and 1099511627776"}));
  Tape tape;
  this->context_.set_tape(&tape);
  tape.watch(operands.key);
  EXPECT_NE(refusal(BlockMask{}).find("expected operands without a gradient"), std::string::npos);
  this->context_.set_tape(nullptr);
}

// The trace counts what the mask lets through, not the square.
TYPED_TEST(Flex, Trace) {
  const auto operands = test::random_operands<TypeParam>(this->context_, {2, 3, 3, 300, 300, 8, 4}, this->random_);
  const auto mask = create_block_mask(this->context_, CausalMask{}, 1, 1, 300, 300);
  Trace trace;
  this->context_.set_trace(&trace);
  flex_attention(operands.query, operands.key, operands.value, no_score_mod, mask);
  this->context_.set_trace(nullptr);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_STREQ(trace.events[0].op, "flex_attention");
  EXPECT_EQ(trace.events[0].useful_flops, 2.0 * 2 * 3 * (300 * 301 / 2) * (8 + 4));
}

// -- block masks alone ------------------------------------------------------------------------

// Mutants: memory taken before anybody asked whether it is there; blocks counted past 64 bits.
// A mask made for a longer sequence serves a shorter one. Mutants: blocks of the cut mask counted by its own
// row length; heads or batch items found at the cut mask's distance; pairs beyond the cut counted.
TYPED_TEST(Flex, TopLeftOfALongerMask) {
  const auto near = [](auto b, auto h, auto q, auto k) { return k - q < 3 + h && q - k < 100 + 10 * b; };
  for (const std::int64_t block_size : {16, 128, 100}) {
    const auto whole = create_block_mask(this->context_, near, 2, 3, 300, 290, block_size);
    for (const auto& [num_queries, num_keys] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{300, 290}, {1, 1}, {129, 64}, {65, 257}, {200, 0}}) {
      SCOPED_TRACE(sentence(num_queries, " queries, ", num_keys, " keys, blocks of ", block_size));
      const auto operands =
          test::random_operands<TypeParam>(this->context_, {2, 3, 3, num_queries, num_keys, 16, 8}, this->random_);
      const auto cut = whole.top_left(num_queries, num_keys);
      const auto made = create_block_mask(this->context_, near, 2, 3, num_queries, num_keys, block_size);
      this->expect_right(operands, kDistance, near, cut);
      const auto run = [&](const BlockMask& mask) {
        return flex_attention(operands.query, operands.key, operands.value, no_score_mod, mask).output;
      };
      EXPECT_TRUE(same_bits(run(made), run(cut)));
      EXPECT_EQ(cut.allowed_pairs(), made.allowed_pairs());
    }
  }
}

TEST(BlockMask, TopLeftRefusesWhatIsNotThere) {
  const Context context = test::poisoned_context();
  const auto mask = create_block_mask(context, CausalMask{}, 1, 1, 40, 30);
  EXPECT_TRUE(test::refuses([&] { static_cast<void>(mask.top_left(41, 30)); }, {"40", "30", "41"}));
  EXPECT_TRUE(test::refuses([&] { static_cast<void>(mask.top_left(40, 31)); }, {"40", "30", "31"}));
  EXPECT_TRUE(test::refuses([&] { static_cast<void>(mask.top_left(-1, 30)); }, {"-1"}));
  EXPECT_TRUE(test::refuses([&] { static_cast<void>(BlockMask().top_left(0, 0)); }, {"empty"}));
  EXPECT_EQ(mask.top_left(10, 9).top_left(3, 2).num_keys(), 2);
}

TEST(BlockMask, RefusesWhatDoesNotFit) {
  const Context context = test::poisoned_context();
  EXPECT_TRUE(test::refuses([&] { create_block_mask(context, CausalMask{}, 1, 1, 1 << 26, 1 << 26, 1); },
                            {"create_block_mask: expected a mask that fits into the "}));
  EXPECT_TRUE(
      test::refuses([&] { create_block_mask(context, CausalMask{}, 9, 9, 1 << 30, 1 << 30, 1); }, {"expected"}));
}

TEST(BlockMask, KindsAndCounts) {
  const Context context = test::poisoned_context({.threads = 3});
  const auto mask = create_block_mask(context, CausalMask{}, 1, 1, 300, 300);
  EXPECT_EQ(mask.query_blocks(), 3);
  EXPECT_EQ(mask.key_blocks(), 3);
  for (std::int64_t q = 0; q < 3; ++q) {
    for (std::int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(mask.kind(0, 0, q, k), k < q ? Kind::full : k == q ? Kind::partial : Kind::empty) << q << ", " << k;
    }
  }
  EXPECT_EQ(mask.allowed_pairs(), 300 * 301 / 2);
  // A block cut off by the end of the keys is full when all it has is allowed.
  EXPECT_EQ(create_block_mask(context, kEverything, 1, 1, 129, 1).kind(0, 0, 1, 0), Kind::full);
}

// Every pair, at block sizes around and off the 64 bits of a word. Mutants: bits of a row cut at 64; the
// offset of a partial block.
TEST(BlockMask, SaysWhatTheModSaid) {
  const Context context = test::poisoned_context({.threads = 2});
  test::Random random(23);
  const auto table = test::random_mask(context, {2, 3, 70, 133}, random, 0.3);
  const auto mask_mod = [&](auto b, auto h, auto q, auto k) { return q / 32 != k / 32 || table.at({b, h, q, k}); };
  for (const std::int64_t block_size : {1, 7, 63, 64, 65, 128, 1000}) {
    const auto mask = create_block_mask(context, mask_mod, 2, 3, 70, 133, block_size);
    std::int64_t pairs = 0;
    test::for_each_index(table.sizes(), [&](const Dims& at) {
      const bool expected = mask_mod(at[0], at[1], at[2], at[3]);
      ASSERT_EQ(mask.allowed(at[0], at[1], at[2], at[3]), expected) << to_string(at) << " block " << block_size;
      pairs += expected;
    });
    EXPECT_EQ(mask.allowed_pairs(), pairs);
  }
}

TEST(BlockMask, Nothing) {
  const Context context = test::poisoned_context();
  EXPECT_TRUE(BlockMask().empty());
  EXPECT_EQ(create_block_mask(context, kEverything, 1, 1, 0, 5).allowed_pairs(), 0);
  EXPECT_EQ(create_block_mask(context, SlidingWindowMask{0}, 1, 1, 9, 9).kind(0, 0, 0, 0), Kind::empty);
}

}  // namespace
}  // namespace ennead
