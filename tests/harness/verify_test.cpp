// SPDX-License-Identifier: Apache-2.0
// The memory that checking takes is known before it is taken.
#include "harness/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <vector>

#include "ennead/variants.h"
#include "harness/work.h"
#include "support/expect.h"

#if defined(__linux__)
#include <malloc.h>

// Every allocation of this program is counted: the arena's come from operator new as the vectors' do.
namespace {

std::atomic<std::size_t> in_use{0}, peak{0};

void* counted(void* block) {
  if (block == nullptr) return nullptr;
  const std::size_t now = in_use += ::malloc_usable_size(block);
  for (std::size_t seen = peak; now > seen && !peak.compare_exchange_weak(seen, now);) {
  }
  return block;
}

void* required(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(step, (bytes + step - 1) / step * step));
}

void release(void* block) {
  if (block != nullptr) in_use -= ::malloc_usable_size(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return required(counted(std::malloc(bytes))); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(std::malloc(bytes)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return required(aligned(bytes, alignment)); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return aligned(bytes, alignment);
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }
#endif

namespace ennead::harness {
namespace {

std::vector<const VariantInfo*> numbered(std::initializer_list<int> numbers) {
  std::vector<const VariantInfo*> chosen;
  for (const VariantInfo& info : variants()) {
    if (std::find(numbers.begin(), numbers.end(), info.number) != numbers.end()) chosen.push_back(&info);
  }
  return chosen;
}

#if defined(__linux__)
struct Case {
  const char* name;
  Shape shape;
  Pass pass;
  Precision precision;
  int threads;
};

// Mutants: the loops of one thread counted for all, or those of all for one; the kept outputs, or the
// gradients, forgotten.
TEST(Verify, KnowsItsMemoryBeforehand) {
  const Shape many_inputs{8, 48, 4000, 8, 1, true, true}, many_outputs{8, 300, 4, 600, 2, true, true};
  const Shape many_weights{1, 8, 600, 640, 2, true, false};
  for (const Case& each : {Case{"loops on one thread", many_inputs, Pass::forward, Precision::float32, 1},
                           Case{"loops on four threads", many_inputs, Pass::forward, Precision::float32, 4},
                           Case{"outputs", many_outputs, Pass::forward, Precision::float32, 1},
                           Case{"wide outputs", many_outputs, Pass::forward, Precision::float64, 1},
                           Case{"gradients", many_weights, Pass::forward_backward, Precision::float32, 1}}) {
    Work work;
    work.shape = each.shape;
    work.pass = each.pass;
    work.precision = each.precision;
    work.threads = each.threads;
    // Two forward would leave blocks of the first in the arena, which nothing tells beforehand.
    const auto order = each.pass == Pass::forward ? numbered({1}) : numbered({1, 2});
    const std::size_t before = in_use;
    peak = before;
    ASSERT_TRUE(verify(order, work, {}).ok());
    const auto taken = static_cast<double>(peak - before);
    const auto told = static_cast<double>(bytes_to_verify(order, work, {}));
    EXPECT_LE(taken, 1.6 * told) << each.name;
    EXPECT_GE(taken, 0.7 * told) << each.name;
  }
}
#endif

// Mutant: the memory taken, and the process killed, before anybody asked.
TEST(Verify, RefusesWhatDoesNotFit) {
  Work work;
  work.shape = {2, 1'000'000'000, 64, 64, 2, true, false};
  EXPECT_TRUE(
      test::refuses([&] { verify(numbered({5}), work, {}); }, {"checking needs ", "float64 loops", "expected"}));
}

// Mutant: a row with large scores taken for one with small ones: then variant 1 misses its own tolerance, and the
// others at times twice its error.
TEST(Verify, LargeInputsAreNoFault) {
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      Work work;
      work.shape = {2, 70, 48, 60, 3, seed % 2 == 0, true};  // more rows than the oracle computes
      work.precision = precision;
      work.seed = seed;
      work.isa = default_isa();
      work.x_deviation = 1e4;
      const Verification verification = verify(numbered({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), work, {});
      for (const Verdict& verdict : verification.verdicts) EXPECT_TRUE(verdict.ok) << verdict.worst;
      EXPECT_GT(verification.verdicts.front().max_abs_err, 1e-12);  // x is as large as it was asked to be
    }
  }
}

}  // namespace
}  // namespace ennead::harness
