// SPDX-License-Identifier: Apache-2.0
// Which instruction sets follow from what a processor says of itself, and who asks for tile registers.
#include "ennead/cpu.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "ennead/context.h"
#include "support/expect.h"

namespace ennead {
namespace {

using base::CpuFeatures;

constexpr Isa kAll[] = {Isa::amx, Isa::avx512, Isa::avx2, Isa::sse4, Isa::scalar};

std::vector<Isa> from(Isa best) {
  std::vector<Isa> isas;
  for (const Isa isa : kAll) {
    if (!isas.empty() || isa == best) isas.push_back(isa);
  }
  return isas;
}

// The registers of processors as the tables of `cpuid` programs print them. No two lie on the same level but for a bit.
constexpr CpuFeatures kNehalem{.leaf1_ecx = 0x0098E3BD};
constexpr CpuFeatures kWestmere{.leaf1_ecx = 0x029EE3FF};
constexpr CpuFeatures kSandyBridge{.leaf1_ecx = 0x1FBAE3BF, .saved_state = 0x7};
constexpr CpuFeatures kHaswell{
    .leaf1_ecx = 0x7FFAFBFF, .leaf7_ebx = 0x000027AB, .extended_ecx = 0x21, .saved_state = 0x7};
constexpr CpuFeatures kSkylakeServer{
    .leaf1_ecx = 0x7FFEFBFF, .leaf7_ebx = 0xD39FFFFB, .extended_ecx = 0x121, .saved_state = 0x2E7};
constexpr CpuFeatures kSapphireRapids{.leaf1_ecx = 0x7FFEFBFF,
                                      .leaf7_ebx = 0xF3BFBFEB,
                                      .leaf7_edx = 0xFFDD4432,
                                      .extended_ecx = 0x121,
                                      .saved_state = 0x602E7,
                                      .offers_tiles = true};

TEST(CpuFeatures, OfKnownProcessors) {
  EXPECT_EQ(base::x86_isas({}), from(Isa::scalar));
  EXPECT_EQ(base::x86_isas(kNehalem), from(Isa::scalar));  // has SSE4.2, but neither AES nor PCLMUL
  EXPECT_EQ(base::x86_isas(kWestmere), from(Isa::sse4));
  EXPECT_EQ(base::x86_isas(kSandyBridge), from(Isa::sse4));
  EXPECT_EQ(base::x86_isas(kHaswell), from(Isa::avx2));
  EXPECT_EQ(base::x86_isas(kSkylakeServer), from(Isa::avx512));
  EXPECT_EQ(base::x86_isas(kSapphireRapids), from(Isa::amx));
}

/// A bit that a level cannot do without: a virtual machine may hide any of them.
struct Needed {
  std::uint32_t CpuFeatures::*word;
  int bit;
  Isa without;  ///< the best that is left
};
constexpr auto kLeaf1 = &CpuFeatures::leaf1_ecx, kLeaf7 = &CpuFeatures::leaf7_ebx, kLeaf7d = &CpuFeatures::leaf7_edx,
               kExtended = &CpuFeatures::extended_ecx, kState = &CpuFeatures::saved_state;
const Needed kNeeded[] = {
    // SSE3 PCLMUL SSSE3 SSE4.1 SSE4.2 AES
    {kLeaf1, 0, Isa::scalar},
    {kLeaf1, 1, Isa::scalar},
    {kLeaf1, 9, Isa::scalar},
    {kLeaf1, 19, Isa::scalar},
    {kLeaf1, 20, Isa::scalar},
    {kLeaf1, 25, Isa::scalar},
    // FMA OSXSAVE AVX F16C, BMI1 AVX2 BMI2, LZCNT, XMM YMM
    {kLeaf1, 12, Isa::sse4},
    {kLeaf1, 27, Isa::sse4},
    {kLeaf1, 28, Isa::sse4},
    {kLeaf1, 29, Isa::sse4},
    {kLeaf7, 3, Isa::sse4},
    {kLeaf7, 5, Isa::sse4},
    {kLeaf7, 8, Isa::sse4},
    {kExtended, 5, Isa::sse4},
    {kState, 1, Isa::sse4},
    {kState, 2, Isa::sse4},
    // F DQ CD BW VL, the registers of AVX-512
    {kLeaf7, 16, Isa::avx2},
    {kLeaf7, 17, Isa::avx2},
    {kLeaf7, 28, Isa::avx2},
    {kLeaf7, 30, Isa::avx2},
    {kLeaf7, 31, Isa::avx2},
    {kState, 5, Isa::avx2},
    {kState, 6, Isa::avx2},
    {kState, 7, Isa::avx2},
    // BF16 TILE, the tile registers
    {kLeaf7d, 22, Isa::avx512},
    {kLeaf7d, 24, Isa::avx512},
    {kState, 17, Isa::avx512},
    {kState, 18, Isa::avx512},
};

// Mutants: any bit left out of its level, taken from another word, or one bit further.
TEST(CpuFeatures, EachBitIsNeeded) {
  for (const Needed& needed : kNeeded) {
    CpuFeatures cpu = kSapphireRapids;
    cpu.*needed.word &= ~(std::uint32_t{1} << needed.bit);
    EXPECT_EQ(base::x86_isas(cpu), from(needed.without)) << "bit " << needed.bit << ", " << name(needed.without);
  }
  CpuFeatures cpu = kSapphireRapids;
  cpu.offers_tiles = false;
  EXPECT_EQ(base::x86_isas(cpu), from(Isa::avx512));
}

// Mutant: a bit that no level needs is asked for.
TEST(CpuFeatures, NoOtherBitIsNeeded) {
  CpuFeatures least{.offers_tiles = true};
  for (const Needed& needed : kNeeded) least.*needed.word |= std::uint32_t{1} << needed.bit;
  EXPECT_EQ(base::x86_isas(least), from(Isa::amx));
}

// The levels of this machine, read by somebody else's code. Mutant: a wrong leaf or register.
#if defined(__x86_64__) && defined(__GNUC__)
TEST(CpuFeatures, OfThisMachineAreWhatTheCompilersLibraryReads) {
  __builtin_cpu_init();
  const auto isas = supported_isas();
  const auto have = [&](Isa isa) { return std::find(isas.begin(), isas.end(), isa) != isas.end(); };
  EXPECT_EQ(have(Isa::sse4),
            __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul"));
  EXPECT_EQ(have(Isa::avx2), have(Isa::sse4) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                 __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"));
  EXPECT_EQ(have(Isa::avx512), have(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
                                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd") &&
                                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
}
#endif

// Mutants: tile registers asked for whatever the Context computes with; a refusal that ends in amx, or in an Error
// though nobody named amx.
TEST(TakeIsa, AsksForTileRegistersOnlyWhereTheyAreUsed) {
  int asked = 0;
  bool given = true;
  const auto ask = [&] {
    ++asked;
    return given;
  };
  const auto take = [&](const std::optional<Isa>& wanted, Isa best) { return base::take_isa(wanted, from(best), ask); };
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::sse4, Isa::scalar}) {
    EXPECT_EQ(take(isa, Isa::amx), isa);
    EXPECT_EQ(take({}, isa), isa);
  }
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(take({}, Isa::amx), Isa::amx);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(take(Isa::amx, Isa::amx), Isa::amx);
  EXPECT_EQ(asked, 2);
  given = false;
  EXPECT_EQ(take({}, Isa::amx), Isa::avx512);
  EXPECT_TRUE(test::refuses([&] { take(Isa::amx, Isa::amx); }, {"amx", "tile registers", "refusal"}));
  EXPECT_EQ(take(Isa::avx2, Isa::amx), Isa::avx2);
  EXPECT_EQ(asked, 4);
  EXPECT_TRUE(test::refuses([&] { take(Isa::amx, Isa::avx2); }, {"avx2, sse4, scalar", "amx"}));
  EXPECT_EQ(asked, 4);
}

#if defined(__linux__)
/// What a forked child left with: `body`'s number, or -1 when a signal ended it.
int in_a_child(const std::function<int()>& body) {
  const int child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}
#endif

#if defined(__linux__) && defined(__x86_64__)
// On a machine that has AMX: the system ends the process that asks for tile registers. Mutant: supported_isas() asks.
TEST(TakeIsa, WhoDeclinesAmxDoesNotAsk) {
  constexpr unsigned kAskForState = 0x1023;
  const auto decline = [] {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAskForState, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  };
  if (in_a_child([&] { return decline() ? 0 : 1; }) != 0) GTEST_SKIP() << "system calls cannot be filtered here";
  ASSERT_EQ(in_a_child([&] { return decline() ? static_cast<int>(syscall(SYS_arch_prctl, kAskForState, 18)) : 0; }),
            -1);
  EXPECT_EQ(in_a_child([&] {
              decline();
              for (const Isa isa : supported_isas()) {
                if (isa == Isa::amx) continue;
                Context::Options options;
                options.isa = isa;
                if (Context(options).isa() != isa || !check_isa(isa).ok()) return 1;
                setenv("ENNEAD_ISA", std::string(name(isa)).c_str(), 1);
                if (Context().isa() != isa) return 2;
                unsetenv("ENNEAD_ISA");
              }
              default_isa();
              return 0;
            }),
            0);
}
#endif

// Mutants: no processor at all where there is one, a quota that adds threads, a quota of 0 taken for none to run on.
TEST(AvailableThreads, TheLowerOfAffinityAndQuotaAndAtLeastOne) {
  EXPECT_EQ(base::threads_within(8, 0), 8);
  EXPECT_EQ(base::threads_within(8, 1), 1);
  EXPECT_EQ(base::threads_within(8, 3), 3);
  EXPECT_EQ(base::threads_within(2, 3), 2);
  EXPECT_EQ(base::threads_within(1, 0), 1);
  EXPECT_EQ(base::threads_within(0, 0), 1);  // unknown
}

#if defined(__linux__)
// Mutant: the affinity mask is not read, or one thread is added or taken away.
TEST(AvailableThreads, OnOneProcessor) {
  EXPECT_EQ(in_a_child([] {
              cpu_set_t mine, one;
              if (sched_getaffinity(0, sizeof(mine), &mine) != 0) return 100;
              CPU_ZERO(&one);
              for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
                if (CPU_ISSET(cpu, &mine)) CPU_SET(cpu, &one);
              }
              if (sched_setaffinity(0, sizeof(one), &one) != 0) return 101;
              return Context().executor().num_threads() == 1 ? available_threads() : 102;
            }),
            1);
}
#endif

}  // namespace
}  // namespace ennead
