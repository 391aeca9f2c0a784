// SPDX-License-Identifier: Apache-2.0
#include "ennead/context.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "ennead/trace.h"
#include "support/contexts.h"
#include "support/expect.h"

namespace ennead {
namespace {

using test::refuses;

TEST(Context, CopiesShareOneState) {
  const Context a = test::poisoned_context({.seed = 5});
  const Context b = a;
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == test::poisoned_context({.seed = 5}));
  b.set_seed(9);
  EXPECT_EQ(a.seed(), 9u);
  Trace trace;
  b.set_trace(&trace);
  EXPECT_EQ(a.trace(), &trace);
  EXPECT_EQ(a.tape(), nullptr);
  EXPECT_FALSE(a.dry_run());
  EXPECT_TRUE(test::dry_context().dry_run());
}

TEST(Cpu, ListsEndWithScalarAndNamesRoundTrip) {
  const auto isas = supported_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.back(), Isa::scalar);
  for (const Isa isa : isas) {
    EXPECT_EQ(parse_isa(name(isa)), isa);
    EXPECT_TRUE(check_isa(isa).ok());
    EXPECT_EQ(test::poisoned_context({.isa = isa}).isa(), isa);
  }
  EXPECT_FALSE(parse_isa("AVX2").has_value());
  EXPECT_FALSE(parse_isa("").has_value());
}

// The library refuses in words what this CPU cannot run (no machine has both of these).
TEST(Cpu, RefusesForeignInstructionSets) {
  const bool x86 = !check_isa(Isa::neon).ok();
  const Isa foreign = x86 ? Isa::neon : Isa::avx512;
  EXPECT_TRUE(refuses([&] { test::poisoned_context({.isa = foreign}); }, {"scalar", std::string(name(foreign))}));
}

TEST(Cpu, EnvironmentForcesOne) {
  ::setenv("ENNEAD_ISA", "scalar", 1);
  EXPECT_EQ(default_isa(), Isa::scalar);
  ::setenv("ENNEAD_ISA", "sse9", 1);
  EXPECT_TRUE(refuses([] { default_isa(); }, {"ENNEAD_ISA", "sse9", "scalar"}));
  ::unsetenv("ENNEAD_ISA");
  EXPECT_EQ(default_isa(), supported_isas().front());
}

TEST(Cpu, ThreadsAreWhatAffinityAllows) {
  EXPECT_GE(available_threads(), 1);
  EXPECT_LE(available_threads(), static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_FALSE(cpu_name().empty());
}

}  // namespace
}  // namespace ennead
