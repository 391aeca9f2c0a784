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
          std::vector<T> row;
          c.append_row(b, h, q, row);
          const std::vector<T> was(clean.begin() + static_cast<std::ptrdiff_t>(at),
                                   clean.begin() + static_cast<std::ptrdiff_t>(at + row.size()));
          at += row.size();
          const bool hit = sees(c, place, spot, b, h, q);
          if (!hit) {
            // AMX does not ask a score_mod which rows see a key that is far from 1: all that may go another way.
            const bool other_way = isa == Isa::amx && configuration.rule == ScoreRule::hiding;
            ASSERT_TRUE(other_way ? near(row, was) : same_bits(row, was))
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

}  // namespace
}  // namespace ennead::test
