// SPDX-License-Identifier: Apache-2.0
// The one file that detects the CPU.
#include "ennead/cpu.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "base/cgroup.h"
#include "base/hardware_threads.h"

namespace ennead {
namespace {

struct NamedIsa {
  Isa isa;
  std::string_view name;
};
constexpr NamedIsa kNames[] = {{Isa::scalar, "scalar"},  {Isa::sse4, "sse4"}, {Isa::avx2, "avx2"},
                               {Isa::avx512, "avx512"},  {Isa::amx, "amx"},   {Isa::neon, "neon"},
                               {Isa::wasm128, "wasm128"}};

std::string names(const std::vector<Isa>& isas) {
  std::string text;
  for (Isa isa : isas) {
    if (!text.empty()) text += ", ";
    text += name(isa);
  }
  return text;
}

#if defined(__x86_64__)
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool has(unsigned word, std::initializer_list<int> bits) {
  return std::all_of(bits.begin(), bits.end(), [word](int bit) { return (word >> bit & 1U) != 0; });
}

// Which register state the operating system saves: AVX needs bits 1-2 of XCR0, AVX-512 also 5-7.
unsigned enabled_state() {
  if (!has(cpuid(1).ecx, {27})) return 0;
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Each level lists every CPUID bit that Highway's target of the same name may emit.
bool has_sse4() { return has(cpuid(1).ecx, {0, 1, 9, 19, 20, 25}); }  // SSE3 PCLMUL SSSE3 SSE4.1 SSE4.2 AES

bool has_avx2() {
  return has_sse4() && (enabled_state() & 0x6U) == 0x6U && has(cpuid(1).ecx, {12, 28, 29}) &&  // FMA AVX F16C
         has(cpuid(7).ebx, {3, 5, 8}) && has(cpuid(0x80000001U).ecx, {5});                     // BMI1 AVX2 BMI2 LZCNT
}

bool has_avx512() {
  return has_avx2() && (enabled_state() & 0xE6U) == 0xE6U && has(cpuid(7).ebx, {16, 17, 28, 30, 31});  // F DQ CD BW VL
}

// Linux hands out the tile registers (bits 17 and 18 of XCR0) on request, to the whole process.
bool has_amx() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return has_avx512() && (enabled_state() & 0x60000U) == 0x60000U && has(cpuid(7).edx, {22, 24}) &&  // BF16 TILE
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

std::string_view name(Isa isa) {
  for (const NamedIsa& named : kNames) {
    if (named.isa == isa) return named.name;
  }
  return "unknown";
}

std::optional<Isa> parse_isa(std::string_view text) {
  for (const NamedIsa& named : kNames) {
    if (named.name == text) return named.isa;
  }
  return {};
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
#if defined(__x86_64__)
  if (has_amx()) isas.push_back(Isa::amx);
  if (has_avx512()) isas.push_back(Isa::avx512);
  if (has_avx2()) isas.push_back(Isa::avx2);
  if (has_sse4()) isas.push_back(Isa::sse4);
#elif defined(__aarch64__)
  isas.push_back(Isa::neon);
#elif defined(__wasm_simd128__)
  isas.push_back(Isa::wasm128);
#endif
  isas.push_back(Isa::scalar);
  return isas;
}

Refusal check_isa(Isa isa) {
  const std::vector<Isa> isas = supported_isas();
  if (std::find(isas.begin(), isas.end(), isa) != isas.end()) return {};
  return sentence("instruction set: expected one that this CPU has (", names(isas), "), got ", name(isa));
}

Isa default_isa() {
  const char* wanted = std::getenv("ENNEAD_ISA");
  if (wanted == nullptr || *wanted == '\0') return supported_isas().front();
  const std::optional<Isa> isa = parse_isa(wanted);
  if (!isa) {
    raise(sentence("ENNEAD_ISA: expected one of ", names(supported_isas()), ", got \"", wanted, "\""));
  }
  require(check_isa(*isa));
  return *isa;
}

int available_threads() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : base::hardware_threads();
#else
  const int affinity = base::hardware_threads();
#endif
  const int quota = base::cgroup_cpu_quota();
  const int threads = quota > 0 ? std::min(affinity, quota) : affinity;
  return std::max(1, threads);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

CacheSizes cpu_caches() {
  CacheSizes sizes;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    std::string type;
    int level = 0;
    long long kibibytes = 0;
    if (!(std::ifstream(folder + "/type") >> type) || !(std::ifstream(folder + "/level") >> level) ||
        !(std::ifstream(folder + "/size") >> kibibytes)) {
      continue;
    }
    if (level == 1 && type == "Data") sizes.l1d = kibibytes * 1024;
    if (level == 2) sizes.l2 = kibibytes * 1024;
    if (level == 3) sizes.l3 = kibibytes * 1024;
  }
  return sizes;
}

}  // namespace ennead
