// SPDX-License-Identifier: Apache-2.0
// What this CPU can run and how many threads this process may use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ennead/error.h"
#include "ennead/export.h"

ENNEAD_API_BEGIN
namespace ennead {

/// Instruction sets the kernels are built for. `scalar` is plain C++ and runs everywhere; `amx` is avx512 with the
/// products of float32 done by the tile registers, as sums of products of bfloat16. Its errors, measured against a
/// row's largest number times a column's, are no larger than those of float32; a number 2^60 times smaller than the
/// largest of its row may lose bits.
enum class Isa { scalar, sse4, avx2, avx512, amx, neon, wasm128 };

std::string_view name(Isa isa);
std::optional<Isa> parse_isa(std::string_view name);

/// Instruction sets that are both built in and supported by this CPU, best first; always ends with scalar.
std::vector<Isa> supported_isas();

/// The best supported one, or the one named by the environment variable ENNEAD_ISA.
/// Throws Error when that variable names an unknown or unsupported instruction set.
Isa default_isa();

/// Asks the operating system for what `isa` needs; nothing when the process may use it from now on, else a sentence.
/// A Context does this for its own instruction set. amx alone needs something: tile registers, which Linux gives to the
/// whole process and for good, and with which a signal stack of less than about 11 KiB is too small.
Refusal request_isa(Isa isa);

/// Nothing when `isa` can run here, else a sentence naming those that can.
Refusal check_isa(Isa isa);

/// Threads this process may use: the CPU affinity mask, lowered to the cgroup's CPU quota. >= 1.
int available_threads();

struct CacheSizes {
  long long l1d = 0, l2 = 0, l3 = 0;  ///< bytes per instance; 0 where unknown
};

/// The CPU's brand string, e.g. for a result file; "unknown" where it cannot be read.
std::string cpu_name();
CacheSizes cpu_caches();

}  // namespace ennead
ENNEAD_API_END
