// SPDX-License-Identifier: Apache-2.0
// kernels: a score_mod is the caller's code: it may call the library, and leave the processor's tile registers in any
// state, since they are the callee's to destroy.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ennead/flex.h"
#include "support/attention_case.h"
#include "support/contexts.h"
#include "support/random.h"

namespace ennead::test {
namespace {

template <class T>
using ModFunction = typename kernels::ScoreMod<T>::Function;

/// What a score_mod of these tests does before it changes the scores as `rule` does.
struct Callback {
  const ScoreRule* rule;
  void (*before)(const Callback&);
  Isa isa;
};

template <class T>
void call_back(const void* state, T* scores, std::int64_t row_stride, std::int64_t batch, std::int64_t head,
               std::int64_t query0, std::int64_t num_queries, std::int64_t key0, std::int64_t num_keys) {
  const Callback& callback = *static_cast<const Callback*>(state);
  callback.before(callback);
  for (std::int64_t i = 0; i < num_queries; ++i) {
    for (std::int64_t j = 0; j < num_keys; ++j) {
      T& score = scores[i * row_stride + j];
      score = (*callback.rule)(score, batch, head, query0 + i, key0 + j);
    }
  }
}

/// Another attention of the same instruction set, with its own memory.
template <class T>
void attend_another(const Callback& callback) {
  Random random(7);
  const auto executor = make_serial_executor();
  AttentionCase<T> other({1, 1, 1, 20, 40, 33, 8}, {.causal = true, .causal_offset = 20}, random, Layout::contiguous);
  other.run(callback.isa, *executor);
  ASSERT_TRUE(other.right());
}

/// Tile registers of 2 rows of 8 bytes, on a processor that has them: their products are legal.
void shrink_tiles([[maybe_unused]] const Callback& callback) {
#if defined(__x86_64__)
  if (callback.isa != Isa::amx) return;
  alignas(64) std::array<std::uint8_t, 64> config{1};  // palette 1
  for (std::size_t tile = 0; tile < 8; ++tile) {
    config[16 + 2 * tile] = 8;  // bytes of a row
    config[48 + tile] = 2;      // rows
  }
  asm volatile("ldtilecfg %0" ::"m"(config));
#endif
}

void release_tiles([[maybe_unused]] const Callback& callback) {
#if defined(__x86_64__)
  if (callback.isa == Isa::amx) asm volatile("tilerelease");
#endif
}

template <class T>
class KernelsAttentionCallbacks : public testing::Test {
 public:
  /// Attention whose score_mod does `before` gives the bits of one that does not. Some queries and keys are far from 1,
  /// which AMX computes in another way, before the next queries go through the tile registers.
  static void run(void (*before)(const Callback&)) {
    for_each_isa([&](Isa isa) {
      const auto executor = make_serial_executor();
      for (const bool wild : {false, true}) {
        Random random(3);
        AttentionCase<T> attention({1, 2, 1, 230, 150, 24, 20}, {.causal = true, .score_mod = true}, random,
                                   Layout::contiguous);
        for (std::int64_t d = 0; wild && d < 24; ++d) {
          attention.query(0, 0, 100, d) *= T(0x1p-60);
          attention.key(0, 0, 140, d) *= T(0x1p-60);
        }
        attention.run(isa, *executor);
        ASSERT_TRUE(attention.right());
        const std::vector<T> want = attention.results();
        const Callback callback{&attention.rule(), before, isa};
        attention.args.score_mod = {static_cast<ModFunction<T>>(call_back<T>), &callback};
        attention.run(isa, *executor);
        const std::vector<T> got = attention.results();
        ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(T)), 0) << (wild ? "wild rows" : "");
      }
    });
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsAttentionCallbacks, Types);

// Mutant: tile registers configured once for the call: the inner call releases them, and the next tile instruction of
// the outer one is illegal.
TYPED_TEST(KernelsAttentionCallbacks, MayCallAttention) { this->run(attend_another<float>); }

// Mutant: the same, where no instruction is illegal: tiles are too small, and sums are wrong without a word.
TYPED_TEST(KernelsAttentionCallbacks, MayLeaveTilesOfAnotherShape) { this->run(shrink_tiles); }
TYPED_TEST(KernelsAttentionCallbacks, MayReleaseTheTiles) { this->run(release_tiles); }

// The same through the library's door, on a Context of the score_mod's own.
TEST(FlexAttentionCallbacks, AScoreModMayHaveAContextOfItsOwn) {
  for_each_isa([](Isa isa) {
    const Context context = poisoned_context({.threads = 1, .isa = isa}),
                  inner = poisoned_context({.threads = 1, .isa = isa});
    Random random(5);
    const Dims sizes{1, 2, 70, 16};
    const auto q = random_tensor<float>(context, sizes, random), k = random_tensor<float>(context, sizes, random),
               v = random_tensor<float>(context, sizes, random);
    const Dims inner_sizes{1, 1, 5, 16};
    const auto x = random_tensor<float>(inner, inner_sizes, random);
    const auto want = flex_attention(q, k, v, no_score_mod, BlockMask{}).output;
    const auto got = flex_attention(
                         q, k, v,
                         [&](auto score, FlexIndex, FlexIndex, FlexIndex query, FlexIndex key) {
                           if (query % 35 == 0 && key % 16 == 0) {
                             EXPECT_EQ(flex_attention(x, x, x, no_score_mod, BlockMask{}).output.size(2), 5);
                           }
                           return score;
                         },
                         BlockMask{})
                         .output;
    for (std::int64_t i = 0; i < want.num_elements(); ++i) ASSERT_NEAR(got.data()[i], want.data()[i], 1e-5);
  });
}

}  // namespace
}  // namespace ennead::test
