// SPDX-License-Identifier: Apache-2.0
// einsum against brute loops over every index, on random equations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "ennead/ops.h"
#include "support/contexts.h"
#include "support/expect.h"
#include "support/random.h"
#include "support/tensors.h"

namespace ennead {
namespace {

using test::refuses;

/// An equation, and what each axis of its operands is called once "..." is written out (its axes
/// are 'Z', 'Y', ... from the right).
struct Case {
  std::string equation, a, b, result;
  Dims a_sizes, b_sizes;
};

std::string ellipsis_names(int axes) {
  std::string names;
  for (int axis = axes - 1; axis >= 0; --axis) names += static_cast<char>('Z' - axis);
  return names;
}

Case random_case(test::Random& random) {
  const std::string letters = "ijkmn";
  std::map<char, std::int64_t> size_of;
  for (const char letter : letters + "ZY") size_of[letter] = random.integer(1, 4);
  Case c;
  const bool dots = random.coin(0.3);
  const auto operand = [&](std::string& names, Dims& sizes) {
    const int ellipsis_axes = dots && random.coin(0.8) ? static_cast<int>(random.integer(0, 2)) : -1;
    const auto count = random.integer(0, 3);
    std::string term, plain;
    for (std::int64_t i = 0; i < count; ++i) plain += letters[static_cast<std::size_t>(random.integer(0, 4))];
    const auto at = static_cast<std::size_t>(random.integer(0, count));
    term = plain;
    names = plain;
    if (ellipsis_axes >= 0) {
      term.insert(at, "...");
      names.insert(at, ellipsis_names(ellipsis_axes));
    }
    // A size of 1 against a longer one broadcasts; a repeated index has one size in one operand.
    std::map<char, std::int64_t> here;
    for (const char name : names) {
      if (!here.contains(name)) here[name] = random.coin(0.15) ? 1 : size_of[name];
      sizes.push_back(here[name]);
    }
    return term;
  };
  const std::string a_term = operand(c.a, c.a_sizes), b_term = operand(c.b, c.b_sizes);
  c.equation = a_term + "," + b_term;

  std::map<char, int> uses;
  for (const char name : c.a + c.b) ++uses[name];
  const bool any_dots = c.equation.find('.') != std::string::npos;
  const std::string dots_out = ellipsis_names(static_cast<int>(
      std::max(std::count_if(c.a.begin(), c.a.end(), ::isupper), std::count_if(c.b.begin(), c.b.end(), ::isupper))));
  if (random.coin(0.3)) {  // implicit: indices used once, in alphabetical order
    c.result = dots_out;
    for (const auto& [name, count] : uses) {
      if (count == 1 && name >= 'a') c.result += name;
    }
  } else {
    std::string chosen;
    for (const auto& [name, count] : uses) {
      if (name >= 'a' && random.coin(0.6)) chosen += name;
    }
    for (std::size_t i = chosen.size(); i > 1; --i) {
      std::swap(chosen[i - 1], chosen[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
    }
    const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(chosen.size())));
    std::string term = chosen;
    c.result = chosen;
    if (any_dots) {
      term.insert(at, "...");
      c.result.insert(at, dots_out);
    }
    c.equation += "->" + term;
  }
  return c;
}

struct Expected {
  Dims sizes;
  std::vector<double> values;
  std::int64_t terms = 1;  // products summed per element
};

template <class T>
Expected brute(const Case& c, const Tensor<T>& a, const Tensor<T>& b) {
  std::map<char, std::int64_t> size_of;
  for (std::size_t i = 0; i < c.a.size(); ++i)
    size_of[c.a[i]] = std::max(size_of[c.a[i]], a.sizes()[static_cast<int>(i)]);
  for (std::size_t i = 0; i < c.b.size(); ++i)
    size_of[c.b[i]] = std::max(size_of[c.b[i]], b.sizes()[static_cast<int>(i)]);
  std::string names = c.result;
  for (const auto& [name, size] : size_of) {
    if (c.result.find(name) == std::string::npos) names += name;
  }
  Expected expected;
  Dims all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    all.push_back(size_of[names[i]]);
    if (i < c.result.size()) {
      expected.sizes.push_back(size_of[names[i]]);
    } else {
      expected.terms *= size_of[names[i]];
    }
  }
  expected.values.assign(static_cast<std::size_t>(expected.sizes.product()), 0.0);
  std::int64_t step = 0;
  test::for_each_index(all, [&](const Dims& at) {
    const auto read = [&](const Tensor<T>& x, const std::string& own) {
      Dims from = x.sizes();
      for (int axis = 0; axis < x.rank(); ++axis) {
        const auto name = static_cast<int>(names.find(own[static_cast<std::size_t>(axis)]));
        from[axis] = x.size(axis) == 1 ? 0 : at[name];
      }
      return static_cast<double>(test::element(x, from));
    };
    expected.values[static_cast<std::size_t>(step++ / expected.terms)] += read(a, c.a) * read(b, c.b);
  });
  return expected;
}

template <class T>
void random_equations(std::uint64_t seed, int rounds) {
  test::Random random(seed);
  test::for_each_isa([&](Isa isa) {
    for (int round = 0; round < rounds; ++round) {
      const Case c = random_case(random);
      const Context context = test::poisoned_context({.isa = isa});
      const auto make = [&](const Dims& sizes) {
        const auto plain = test::random_tensor<T>(context, sizes, random);
        return sizes.rank() == 0 ? plain : test::with_layout(plain, test::kLayouts[random.integer(0, 3)]);
      };
      const auto a = make(c.a_sizes), b = make(c.b_sizes);
      const Expected expected = brute(c, a, b);
      const Tensor<T> got = einsum(c.equation, a, b);
      SCOPED_TRACE(c.equation + " of " + to_string(c.a_sizes) + " and " + to_string(c.b_sizes));
      ASSERT_EQ(to_string(got.sizes()), to_string(expected.sizes));
      const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
      ASSERT_TRUE(test::close(expected.values, got, {8 * epsilon * static_cast<double>(4 + expected.terms), 0}));
    }
  });
}

// Mutants: the diagonal taken of the first axis only; a lonely index summed after the product of a
// broadcast one; implicit output in order of appearance; "..." of different lengths aligned left.
TEST(Einsum, RandomEquationsDouble) { random_equations<double>(1, 1500); }
TEST(Einsum, RandomEquationsFloat) { random_equations<float>(2, 500); }

// The equations of the book's variant, at the sizes of attention.
TEST(Einsum, EquationsOfAttention) {
  test::Random random(3);
  const Context context = test::poisoned_context();
  const auto check = [&](const Case& c) {
    const auto a = test::random_tensor<double>(context, c.a_sizes, random);
    const auto b = test::random_tensor<double>(context, c.b_sizes, random);
    EXPECT_TRUE(test::close(brute(c, a, b).values, einsum(c.equation, a, b), {1e-12, 0})) << c.equation;
  };
  check({"bnd,do->bno", "bnd", "do", "bno", {2, 5, 7}, {7, 6}});
  check({"bhnd,bhmd->bhnm", "bhnd", "bhmd", "bhnm", {2, 3, 5, 4}, {2, 3, 5, 4}});
  check({"bhnm,bhmd->bhnd", "bhnm", "bhmd", "bhnd", {2, 3, 5, 5}, {2, 3, 5, 4}});
  check({"bhnm,bhmd->bnhd", "bhnm", "bhmd", "bnhd", {2, 3, 5, 5}, {2, 3, 5, 4}});
}

// Mutant: shared indices always kept apart, which needs more axes than a tensor has.
TEST(Einsum, AsManySharedIndicesAsATensorHasAxes) {
  test::Random random(4);
  const Context context = test::poisoned_context();
  const Dims sizes{2, 1, 3, 2, 1, 2, 2, 3};
  const auto a = test::random_tensor<double>(context, sizes, random);
  const auto b = test::random_tensor<double>(context, sizes, random);
  const auto product = einsum("abcdefgh,abcdefgh->abcdefgh", a, b);
  const auto as = test::to_doubles(a), bs = test::to_doubles(b);
  std::vector<double> expected;
  for (std::size_t i = 0; i < as.size(); ++i) expected.push_back(as[i] * bs[i]);
  EXPECT_TRUE(test::close(expected, product, {1e-15, 0}));
}

TEST(Einsum, EmptyAxes) {
  const Context context = test::poisoned_context();
  const auto none = Tensor<double>::full(context, {3, 0}, 1), any = Tensor<double>::full(context, {0, 2}, 1);
  const auto sums = einsum("ij,jk->ik", none, any);  // a sum of nothing is 0, not what memory held
  EXPECT_TRUE(test::close(std::vector<double>(6, 0.0), sums, {}));
  EXPECT_EQ(to_string(einsum("ij,jk->jik", none, any).sizes()), "[0, 3, 2]");
}

TEST(Einsum, RefusesInOneSentence) {
  const Context context = test::poisoned_context();
  const auto x = Tensor<double>::full(context, {2, 3}, 1), square = Tensor<double>::full(context, {3, 3}, 1);
  const auto bad = [&](const char* equation, const std::vector<std::string>& words = {}) {
    EXPECT_TRUE(refuses([&] { einsum(equation, x, square); }, words)) << equation;
  };
  bad("ij,jk->il", {"ij,jk->il"});         // l is nowhere
  bad("ij,jk->ii", {"ij,jk->ii"});         // twice in the result
  bad("ij,kj->ik->", {});                  // two arrows
  bad("ij", {"ij"});                       // one operand
  bad("ij,jk,kl->il", {});                 // three
  bad("ijk,jk->i", {"[2, 3]"});            // more indices than axes
  bad("i,jk->i", {"[2, 3]"});              // fewer
  bad("ii,jk->i", {"[2, 3]"});             // no diagonal
  bad("ij,ik->jk", {"[2, 3]", "[3, 3]"});  // sizes 2 and 3
  bad("i1,jk->i", {"i1"});
  bad("i..j,jk->ik", {});
  bad("...i...,jk->k", {});
  bad("", {});
  EXPECT_TRUE(refuses([&] { einsum("ij,jk->ik", Tensor<double>(), square); }));
}

}  // namespace
}  // namespace ennead
