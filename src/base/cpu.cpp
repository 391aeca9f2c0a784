// SPDX-License-Identifier: Apache-2.0
// The one file that detects the CPU.
#include "ennead/cpu.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
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
#include "base/cpu_features.h"
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

constexpr const char* kNoTiles = "instruction set amx: expected tile registers from the system, got a refusal";

std::string names(const std::vector<Isa>& isas) {
  std::string text;
  for (Isa isa : isas) {
    if (!text.empty()) text += ", ";
    text += name(isa);
  }
  return text;
}

bool has(std::uint32_t word, std::initializer_list<int> bits) {
  return std::all_of(bits.begin(), bits.end(), [word](int bit) { return (word >> bit & 1U) != 0; });
}

// Each level lists every CPUID bit that Highway's target of the same name may emit.
bool has_sse4(const base::CpuFeatures& cpu) {
  return has(cpu.leaf1_ecx, {0, 1, 9, 19, 20, 25});  // SSE3 PCLMUL SSSE3 SSE4.1 SSE4.2 AES
}

bool has_avx2(const base::CpuFeatures& cpu) {
  return has_sse4(cpu) && has(cpu.saved_state, {1, 2}) &&  // XMM YMM
         has(cpu.leaf1_ecx, {12, 27, 28, 29}) &&           // FMA OSXSAVE AVX F16C
         has(cpu.leaf7_ebx, {3, 5, 8}) &&                  // BMI1 AVX2 BMI2
         has(cpu.extended_ecx, {5});                       // LZCNT
}

bool has_avx512(const base::CpuFeatures& cpu) {
  return has_avx2(cpu) && has(cpu.saved_state, {5, 6, 7}) &&  // mask registers, upper halves, ZMM16 to 31
         has(cpu.leaf7_ebx, {16, 17, 28, 30, 31});            // F DQ CD BW VL
}

bool has_amx(const base::CpuFeatures& cpu) {
  return has_avx512(cpu) && has(cpu.saved_state, {17, 18}) &&  // tile configuration, tile data
         has(cpu.leaf7_edx, {22, 24}) &&                       // BF16 TILE
         cpu.offers_tiles;
}

// Linux gives the tile registers (bit 18 of XCR0) to a process that asks, for all of its threads.
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
constexpr int kTileData = 18;

bool offers_tiles() {
  constexpr int kSupportedState = 0x1021;
  std::uint64_t state = 0;
  return syscall(SYS_arch_prctl, kSupportedState, &state) == 0 && (state >> kTileData & 1U) != 0;
}

bool ask_for_tiles() {
  constexpr int kRequestPermission = 0x1023;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool offers_tiles() { return false; }
bool ask_for_tiles() { return false; }
#endif

Refusal check_among(Isa isa, const std::vector<Isa>& supported) {
  if (std::find(supported.begin(), supported.end(), isa) != supported.end()) return {};
  return sentence("instruction set: expected one that this CPU has (", names(supported), "), got ", name(isa));
}

// The one that the environment names, if any.
std::optional<Isa> named_isa() {
  const char* wanted = std::getenv("ENNEAD_ISA");
  if (wanted == nullptr || *wanted == '\0') return {};
  const std::optional<Isa> isa = parse_isa(wanted);
  if (!isa) {
    raise(sentence("ENNEAD_ISA: expected one of ", names(supported_isas()), ", got \"", wanted, "\""));
  }
  require(check_isa(*isa));
  return isa;
}

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

base::CpuFeatures base::read_cpu_features() {
  CpuFeatures features;
#if defined(__x86_64__)
  const auto cpuid = [](unsigned leaf) {
    struct Registers {
      unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    } r;
    __get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx);
    return r;
  };
  features.leaf1_ecx = cpuid(1).ecx;
  features.leaf7_ebx = cpuid(7).ebx;
  features.leaf7_edx = cpuid(7).edx;
  features.extended_ecx = cpuid(0x80000001U).ecx;
  constexpr int kCanReadState = 27;  // OSXSAVE
  if (has(features.leaf1_ecx, {kCanReadState})) {
    unsigned high = 0;
    asm volatile("xgetbv" : "=a"(features.saved_state), "=d"(high) : "c"(0));
  }
  features.offers_tiles = offers_tiles();
#endif
  return features;
}

std::vector<Isa> base::x86_isas(const CpuFeatures& features) {
  std::vector<Isa> isas;
  if (has_amx(features)) isas.push_back(Isa::amx);
  if (has_avx512(features)) isas.push_back(Isa::avx512);
  if (has_avx2(features)) isas.push_back(Isa::avx2);
  if (has_sse4(features)) isas.push_back(Isa::sse4);
  isas.push_back(Isa::scalar);
  return isas;
}

std::vector<Isa> supported_isas() {
#if defined(__x86_64__)
  return base::x86_isas(base::read_cpu_features());
#elif defined(__aarch64__)
  return {Isa::neon, Isa::scalar};
#elif defined(__wasm_simd128__)
  return {Isa::wasm128, Isa::scalar};
#else
  return {Isa::scalar};
#endif
}

Refusal check_isa(Isa isa) { return check_among(isa, supported_isas()); }

Isa default_isa() {
  const std::optional<Isa> named = named_isa();
  return named ? *named : supported_isas().front();
}

Refusal request_isa(Isa isa) {
  if (Refusal refusal = check_isa(isa); !refusal.ok()) return refusal;
  if (isa != Isa::amx || ask_for_tiles()) return {};
  return kNoTiles;
}

Isa base::take_isa(const std::optional<Isa>& wanted, const std::vector<Isa>& supported, AskForTiles ask) {
  if (wanted) {
    require(check_among(*wanted, supported));
    if (*wanted == Isa::amx && !ask()) raise(kNoTiles);
    return *wanted;
  }
  for (const Isa isa : supported) {
    if (isa != Isa::amx || ask()) return isa;
  }
  return Isa::scalar;
}

Isa base::take_isa(const std::optional<Isa>& wanted) {
  return take_isa(wanted ? wanted : named_isa(), supported_isas(), [] { return ask_for_tiles(); });
}

int base::threads_within(int in_affinity, int quota) {
  return std::max(1, quota > 0 ? std::min(in_affinity, quota) : in_affinity);
}

int available_threads() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : base::hardware_threads();
#else
  const int affinity = base::hardware_threads();
#endif
  return base::threads_within(affinity, base::cgroup_cpu_quota());
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
