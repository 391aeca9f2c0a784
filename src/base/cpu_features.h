// SPDX-License-Identifier: Apache-2.0
// What a processor and its operating system say of themselves, and what follows from that.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ennead/cpu.h"
#include "ennead/function_ref.h"

namespace ennead::base {

/// Of an x86-64 processor; all zero for others.
struct CpuFeatures {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_edx = 0;  ///< CPUID 1 and 7
  std::uint32_t extended_ecx = 0;                             ///< CPUID 0x80000001
  std::uint32_t saved_state = 0;                              ///< XCR0: which registers the operating system saves
  bool offers_tiles = false;                                  ///< Linux gives tile registers to a process that asks
};

/// Reads them, and asks for nothing.
CpuFeatures read_cpu_features();

/// The instruction sets of an x86-64 processor with these features, best first; scalar is the last.
std::vector<Isa> x86_isas(const CpuFeatures& features);

/// Asks the operating system for the tile registers; whether it gives them.
using AskForTiles = FunctionRef<bool()>;

/// The instruction set of a new Context: the one that is wanted, else the best of `supported` for which the system
/// gives what it needs. Asks for tile registers only where the answer would be amx. Throws Error when the one that is
/// wanted cannot be had.
Isa take_isa(const std::optional<Isa>& wanted, const std::vector<Isa>& supported, AskForTiles ask);
/// The same on this machine; when none is wanted, ENNEAD_ISA may name one.
Isa take_isa(const std::optional<Isa>& wanted);

/// Threads that `in_affinity` processors and a quota of so many (0: none) leave; at least 1.
int threads_within(int in_affinity, int quota);

}  // namespace ennead::base
