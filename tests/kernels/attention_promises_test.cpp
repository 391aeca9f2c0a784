// SPDX-License-Identifier: Apache-2.0
// kernels: what attention promises, each promise in every configuration: masks of all kinds, score_mods, types,
// instruction sets, one query, few and many, grouped heads, with and without a log-sum-exp.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/kernels.h"
#include "support/attention_case.h"
#include "support/contexts.h"

namespace ennead::test {
namespace {

/// A configuration: what the call is given.
struct Configuration {
  const char* masks_name;
  AttentionMasks masks;
  const char* rule_name;
  ScoreRule::Kind rule;  ///< if masks.score_mod
  AttentionShape shape;
  bool wants_lse;
  std::uint64_t seed;
};

std::string name_of(const Configuration& c) {
  const AttentionShape& s = c.shape;
  std::ostringstream text;
  text << "masks: " << c.masks_name << ", score_mod: " << c.rule_name
       << ", [batch, heads/kv_heads, queries x keys, dims] [" << s.batch << ", " << s.heads << "/" << s.kv_heads << ", "
       << s.num_queries << " x " << s.num_keys << ", " << s.head_dim << "/" << s.value_dim << "]"
       << (c.wants_lse ? ", lse" : "") << ", seed " << c.seed;
  return text.str();
}

/// Calls body(configuration) for the whole grid.
template <class Body>
void for_each_configuration(Body&& body) {
  const struct {
    const char* name;
    AttentionMasks masks;
  } masks[] = {
      {"none", {}},
      {"causal", {.causal = true, .causal_offset = -1}},
      {"boolean", {.allow = true}},
      {"additive", {.bias = true}},
      {"blocks", {.block_q = 16, .block_k = 24}},
      {"all", {.causal = true, .causal_offset = 40, .allow = true, .bias = true, .block_q = 32, .block_k = 64}}};
  const struct {
    const char* name;
    bool given;
    ScoreRule::Kind kind;
  } rules[] = {{"none", false, ScoreRule::same},
               {"same", true, ScoreRule::same},
               {"changing", true, ScoreRule::changing},
               {"hiding", true, ScoreRule::hiding}};
  // One query, few, a tile and a bit, more than a block of queries.
  const AttentionShape shapes[] = {
      {2, 2, 1, 1, 70, 8, 16}, {1, 4, 2, 5, 140, 17, 5}, {2, 2, 2, 40, 40, 16, 33}, {1, 2, 1, 200, 150, 8, 8}};
  std::uint64_t seed = 0;
  for (const auto& mask : masks) {
    for (const auto& rule : rules) {
      for (const AttentionShape& shape : shapes) {
        Configuration c{mask.name, mask.masks, rule.name, rule.kind, shape, Random(++seed).coin(), seed};
        c.masks.score_mod = rule.given;
        // A single query sees keys when causal as well.
        if (shape.num_queries == 1 && c.masks.causal) c.masks.causal_offset = 60;
        SCOPED_TRACE(name_of(c));
        body(c);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// The call of a configuration, in which some rows see no key.
template <class T>
class PromiseCase : public AttentionCase<T> {
 public:
  explicit PromiseCase(const Configuration& c, Random random)
      : AttentionCase<T>(c.shape, c.masks, random, Layout::contiguous), shape(c.shape) {
    this->rule().kind = c.rule;
    if (!c.wants_lse) this->args.lse.data = nullptr;
    for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t q) {
      for (std::int64_t k = 0; this->args.bias.data && k < shape.num_keys; ++k) {
        if (random.coin(0.2)) this->bias(b, h, q, k) = -std::numeric_limits<T>::infinity();
      }
      if (q == 3) this->block_query(b, h, q);
    });
  }

  template <class Body>
  void for_each_row(Body&& body) const {
    for (std::int64_t b = 0; b < shape.batch; ++b) {
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        for (std::int64_t q = 0; q < shape.num_queries; ++q) body(b, h, q);
      }
    }
  }
  std::int64_t kv_head(std::int64_t h) const { return h / (shape.heads / shape.kv_heads); }

  const AttentionShape shape;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// NaN with all bits set, or with the last one only: its upper half alone is infinity.
template <class T>
T nan_of(bool ones) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const Bits infinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  return std::bit_cast<T>(ones ? ~Bits{0} : static_cast<Bits>(infinity | 1U));
}

template <class T>
bool near(const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i]) && !(std::abs(a[i] - b[i]) <= T(1e-4))) return false;
  }
  return a.size() == b.size();
}

template <class T>
std::vector<T> row_of(const PromiseCase<T>& c, std::int64_t b, std::int64_t h, std::int64_t q) {
  std::vector<T> row;
  c.append_row(b, h, q, row);
  return row;
}
template <class T>
std::vector<T> part_of(const std::vector<T>& all, std::size_t at, std::size_t count) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
  return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(count));
}

/// Whether results are those of before. AMX does not ask a score_mod which rows see a key that is far from 1: they all
/// may go another way then, to other bits.
template <class T>
bool unchanged(Isa isa, const Configuration& configuration, const std::vector<T>& got, const std::vector<T>& was) {
  if (isa == Isa::amx && configuration.rule == ScoreRule::hiding) return near(got, was);
  return same_bits(got, was);
}

/// A position of which something is changed.
struct Spot {
  std::int64_t batch, head, query, key;
};
enum class Place { query, key, value, bias, score_mod };
constexpr const char* kPlaceNames[] = {"query", "key", "value", "bias", "score_mod"};

/// Whether a row sees what was changed at `spot` of `place`.
template <class T>
bool sees(const PromiseCase<T>& c, Place place, const Spot& spot, std::int64_t b, std::int64_t h, std::int64_t q) {
  if (place == Place::query) return b == spot.batch && h == spot.head && q == spot.query && c.sees_any(b, h, q);
  if (place == Place::score_mod) return q == spot.query && c.seen(b, h, q, spot.key);
  if (b != spot.batch || !c.seen(b, h, q, spot.key)) return false;
  if (place == Place::bias) return h == spot.head && q == spot.query;
  return c.kv_head(h) == c.kv_head(spot.head);
}

template <class T>
class KernelsAttentionPromises : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsAttentionPromises, Types);

// Every row that sees a NaN is NaN, and no other row changes a bit. Mutants: "blocked" found by a comparison that is
// false for NaN; a maximum that drops NaN; a hidden NaN multiplied by 0.
TYPED_TEST(KernelsAttentionPromises, NaNReachesExactlyTheRowsThatSeeIt) {
  using T = TypeParam;
  const auto executor = make_serial_executor();
  for_each_isa([&](Isa isa) {
    for_each_configuration([&](const Configuration& configuration) {
      Random random(configuration.seed);
      PromiseCase<T> c(configuration, random);
      c.run(isa, *executor);
      ASSERT_TRUE(c.right());
      const std::vector<T> clean = c.results();
      for (const Place place : {Place::query, Place::key, Place::value, Place::bias, Place::score_mod}) {
        if (place == Place::bias && !c.args.bias.data) continue;
        if (place == Place::score_mod && !c.args.score_mod.function) continue;
        SCOPED_TRACE(kPlaceNames[static_cast<int>(place)]);
        const Spot spot{random.integer(0, c.shape.batch - 1), random.integer(0, c.shape.heads - 1),
                        random.integer(0, c.shape.num_queries - 1), random.integer(0, c.shape.num_keys - 1)};
        const std::int64_t kv_head = c.kv_head(spot.head), column = random.integer(0, 4);
        T* const changed = place == Place::query   ? &c.query(spot.batch, spot.head, spot.query, column)
                           : place == Place::key   ? &c.key(spot.batch, kv_head, spot.key, column)
                           : place == Place::value ? &c.value(spot.batch, kv_head, spot.key, column)
                           : place == Place::bias  ? &c.bias(spot.batch, spot.head, spot.query, spot.key)
                                                   : nullptr;
        const T before = changed ? *changed : T(0);
        const T nan = nan_of<T>(random.coin());
        if (changed) std::memcpy(changed, &nan, sizeof(nan));
        if (place == Place::score_mod) c.rule().nan_query = spot.query, c.rule().nan_key = spot.key;
        c.run(isa, *executor);
        std::size_t at = 0;
        c.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t q) {
          const std::vector<T> row = row_of(c, b, h, q), was = part_of(clean, at, row.size());
          at += row.size();
          const bool hit = sees(c, place, spot, b, h, q);
          if (!hit) {
            ASSERT_TRUE(unchanged(isa, configuration, row, was))
                << "row " << b << ", " << h << ", " << q << " sees no NaN and changed";
            return;
          }
          for (std::size_t d = 0; d < row.size(); ++d) {
            ASSERT_EQ(std::isnan(row[d]), place != Place::value || d == static_cast<std::size_t>(column))
                << "row " << b << ", " << h << ", " << q << " column " << d << ", NaN at key " << spot.key;
          }
        });
        if (testing::Test::HasFatalFailure()) return;
        if (changed) *changed = before;
        c.rule().nan_query = c.rule().nan_key = -1;
      }
    });
  });
}

// What is infinite and seen shows as float64 has it: a value in its column, a score of +inf as NaN, one of -inf not at
// all. Mutants: infinity clamped to a finite number; taken for a mask; spread over the rows of a tile.
TYPED_TEST(KernelsAttentionPromises, InfinityReachesTheRowsThatSeeIt) {
  using T = TypeParam;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const auto executor = make_serial_executor();
  for_each_isa([&](Isa isa) {
    for_each_configuration([&](const Configuration& configuration) {
      Random random(configuration.seed);
      PromiseCase<T> c(configuration, random);
      c.run(isa, *executor);
      const std::vector<T> clean = c.results();
      for (const Place place : {Place::key, Place::value}) {
        SCOPED_TRACE(kPlaceNames[static_cast<int>(place)]);
        const Spot spot{random.integer(0, c.shape.batch - 1), random.integer(0, c.shape.heads - 1), 0,
                        random.integer(0, c.shape.num_keys - 1)};
        const std::int64_t kv_head = c.kv_head(spot.head), column = random.integer(0, 4);
        T& changed = place == Place::key ? c.key(spot.batch, kv_head, spot.key, column)
                                         : c.value(spot.batch, kv_head, spot.key, column);
        const T before = changed, infinity = random.coin() ? kInfinity : -kInfinity;
        changed = infinity;
        c.run(isa, *executor);
        std::size_t at = 0;
        c.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t q) {
          const std::vector<T> row = row_of(c, b, h, q), was = part_of(clean, at, row.size());
          at += row.size();
          if (!sees(c, place, spot, b, h, q)) {
            ASSERT_TRUE(unchanged(isa, configuration, row, was)) << "row " << b << ", " << h << ", " << q;
            return;
          }
          const bool nan = place == Place::key && c.query(b, h, q, column) * infinity > 0;
          for (std::size_t d = 0; d < row.size(); ++d) {
            if (place == Place::value && d == static_cast<std::size_t>(column)) {
              ASSERT_EQ(row[d], infinity) << "row " << b << ", " << h << ", " << q;
            } else {
              ASSERT_EQ(std::isnan(row[d]), nan) << "row " << b << ", " << h << ", " << q << " column " << d;
              if (place == Place::value) {
                ASSERT_NEAR(row[d], was[d], 1e-4);
              }
            }
          }
        });
        if (testing::Test::HasFatalFailure()) return;
        changed = before;
      }
    });
  });
}

// Mutants: norms, maxima or tame flags of keys that nobody sees deciding anything about a result.
TYPED_TEST(KernelsAttentionPromises, WhatIsHiddenLeavesNoTrace) {
  using T = TypeParam;
  const auto executor = make_serial_executor();
  const T bad[] = {nan_of<T>(true), std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(), T(1e30),
                   T(1e-30)};
  for_each_isa([&](Isa isa) {
    for_each_configuration([&](const Configuration& configuration) {
      Random random(configuration.seed);
      PromiseCase<T> c(configuration, random);
      c.run(isa, *executor);
      const std::vector<T> clean = c.results();
      for (std::int64_t b = 0; b < c.shape.batch; ++b) {
        for (std::int64_t kv_head = 0; kv_head < c.shape.kv_heads; ++kv_head) {
          for (std::int64_t k = 0; k < c.shape.num_keys; ++k) {
            bool seen = false;
            c.for_each_row([&](std::int64_t row_b, std::int64_t h, std::int64_t q) {
              seen = seen || (row_b == b && c.kv_head(h) == kv_head && c.seen(b, h, q, k));
            });
            for (std::int64_t d = 0; !seen && d < c.shape.head_dim; ++d) c.key(b, kv_head, k, d) = bad[k % 5];
            for (std::int64_t d = 0; !seen && d < c.shape.value_dim; ++d) c.value(b, kv_head, k, d) = bad[k % 5];
          }
        }
      }
      c.run(isa, *executor);
      ASSERT_TRUE(unchanged(isa, configuration, c.results(), clean));
    });
  });
}

// Mutants: a sum that depends on the worker, the chunk of the queue, the batch neighbour, or what memory held; a row
// without a key left as it was, or divided by 0.
TYPED_TEST(KernelsAttentionPromises, BitsAreThoseOfTheRowAlone) {
  using T = TypeParam;
  const auto serial = make_serial_executor(), two = make_thread_pool(2), three = make_thread_pool(3);
  for_each_isa([&](Isa isa) {
    for_each_configuration([&](const Configuration& configuration) {
      PromiseCase<T> c(configuration, Random(configuration.seed));
      c.run(isa, *serial);
      const std::vector<T> want = c.results();
      std::size_t at = 0;
      bool any_empty = false;
      c.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t q) {
        const std::vector<T> row = row_of(c, b, h, q);
        at += row.size();
        if (c.sees_any(b, h, q)) return;
        any_empty = true;
        for (std::size_t d = 0; d < row.size(); ++d) {
          const bool is_lse = d == static_cast<std::size_t>(c.shape.value_dim);
          ASSERT_EQ(row[d], is_lse ? -std::numeric_limits<T>::infinity() : T(0))
              << "row " << b << ", " << h << ", " << q;
        }
      });
      // Without a mask or a score_mod that hides, and for a single query, no row is empty.
      const bool masked = std::strcmp(configuration.masks_name, "none") != 0 || configuration.rule == ScoreRule::hiding;
      if (c.shape.num_queries > 1) {
        ASSERT_EQ(any_empty, masked);
      }

      c.run(isa, *serial, Fill::ordinary_number);
      ASSERT_TRUE(same_bits(c.results(), want)) << "memory that held ordinary numbers";
      for (Executor* pool : {two.get(), three.get()}) {
        c.run(isa, *pool);
        ASSERT_TRUE(same_bits(c.results(), want)) << pool->num_threads() << " threads";
      }
      c.args.q.sizes[0] = c.args.k.sizes[0] = c.args.v.sizes[0] = c.args.out.sizes[0] = c.args.lse.sizes[0] = 1;
      c.run(isa, *serial);
      at = 0;
      c.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t q) {
        const std::vector<T> row = row_of(c, b, h, q), was = part_of(want, at, row.size());
        at += row.size();
        if (b == 0) {
          ASSERT_TRUE(same_bits(row, was)) << "alone, row " << h << ", " << q;
        }
      });
    });
  });
}

}  // namespace
}  // namespace ennead::test
