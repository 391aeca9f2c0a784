// SPDX-License-Identifier: Apache-2.0
// ennead_bench_kernels: what share of the machine's multiply-adds each kernel reaches.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cases.h"
#include "measure.h"

namespace ennead::bench {
namespace {

constexpr const char* kUsage =
    "usage: ennead_bench_kernels [--isa NAME] [--peak NAME] [--threads N] [--dtype float32|float64]\n"
    "                            [--rounds N] [--only TEXT] [--quick] [--json FILE]\n"
    "Times every kernel on every instruction set of this CPU, or on one, between two runs of a loop of\n"
    "register multiply-adds, and prints the median share of that loop's speed, by CPU time, and the scratch\n"
    "memory the kernel takes. Of several threads none did more than the share \"busiest\" of the work.\n"
    "--peak measures against another instruction set's loop: amx against the multiply-adds of avx512, say.\n"
    "--only keeps the cases whose \"kernel shape\" holds TEXT; --quick keeps a few; --json writes all samples.\n";

struct Options {
  std::vector<Isa> isas;
  std::optional<Isa> peak;  ///< whose loop is the yardstick; else the one that is measured
  int threads = 1, rounds = 15;
  bool float64 = false, quick = false;
  std::string only, json;
};

/// A command line that makes no sense: says why and leaves with 2.
[[noreturn]] void reject(const std::string& why) {
  std::cerr << "ennead_bench_kernels: " << why << '\n' << kUsage;
  std::exit(2);
}

int positive(std::string_view flag, const std::string& value) {
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 1 || number > 1 << 20) {
    reject(std::string(flag) + ": expected a positive number, got \"" + value + "\"");
  }
  return static_cast<int>(number);
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--help") {
      std::cout << kUsage;
      std::exit(0);
    }
    if (flag == "--quick") {
      options.quick = true;
      continue;
    }
    if (i + 1 == arguments.size()) reject("unknown option or missing value: " + flag);
    const std::string& value = arguments[++i];
    if (flag == "--isa" || flag == "--peak") {
      const std::optional<Isa> isa = parse_isa(value);
      if (!isa || !check_isa(*isa).ok()) reject(flag + ": not on this CPU: " + value);
      if (flag == "--isa") {
        options.isas = {*isa};
      } else {
        options.peak = isa;
      }
    } else if (flag == "--threads") {
      options.threads = positive(flag, value);
    } else if (flag == "--rounds") {
      options.rounds = positive(flag, value);
    } else if (flag == "--dtype") {
      if (value != "float32" && value != "float64") reject("--dtype: expected float32 or float64, got " + value);
      options.float64 = value == "float64";
    } else if (flag == "--only") {
      options.only = value;
    } else if (flag == "--json") {
      options.json = value;
    } else {
      reject("unknown option: " + flag);
    }
  }
  if (options.isas.empty()) {
    options.isas = supported_isas();
    // The plain loops are the specification, not a contender, and would take minutes.
    if (options.isas.size() > 1) options.isas.pop_back();
  }
  return options;
}

struct Row {
  Isa isa;
  const Case* work;
  Measurement measurement;
  double executed_flops;
  std::size_t scratch_bytes;
};

void write_json(const Options& options, const std::vector<Row>& rows) {
  std::ofstream out(options.json);
  const CacheSizes caches = cpu_caches();
  out << "{\n  \"schema_version\": 1,\n  \"machine\": {\"cpu\": \"" << cpu_name() << "\", \"l1d\": " << caches.l1d
      << ", \"l2\": " << caches.l2 << ", \"l3\": " << caches.l3 << ", \"threads\": " << options.threads
      << "},\n  \"build\": {\"compiler\": \"" << __VERSION__ << "\"},\n  \"dtype\": \""
      << (options.float64 ? "float64" : "float32") << "\",\n";
  if (options.peak) out << "  \"peak_isa\": \"" << name(*options.peak) << "\",\n";
  out << "  \"results\": [";
  const char* separator = "\n";
  for (const Row& row : rows) {
    out << separator << "    {\"isa\": \"" << name(row.isa) << "\", \"kernel\": \"" << row.work->kernel
        << "\", \"shape\": \"" << row.work->shape << "\", \"useful_flops\": " << row.measurement.flops
        << ", \"executed_flops\": " << row.executed_flops << ", \"scratch_bytes\": " << row.scratch_bytes
        << ", \"median_share\": " << row.measurement.median_share() << ",\n     \"samples\": [";
    separator = ",\n";
    const char* comma = "";
    for (const Sample& sample : row.measurement.samples) {
      out << comma << "{\"wall_s\": " << sample.wall_seconds << ", \"cpu_s\": " << sample.cpu_seconds
          << ", \"peak_before\": " << sample.peak_before << ", \"peak_after\": " << sample.peak_after << '}';
      comma = ", ";
    }
    out << "]}";
  }
  out << "\n  ]\n}\n";
  out.flush();
  if (!out) {
    std::cerr << "ennead_bench_kernels: cannot write " << options.json << '\n';
    std::exit(1);
  }
}

template <class T>
int run(const Options& options) {
  const std::vector<Case> all = cases<T>();
  std::vector<Row> rows;
  int status = 0;
  std::printf("%-8s %-24s %-22s %10s %10s %8s %8s %8s %11s%s\n", "isa", "kernel", "shape", "ms", "GFLOP/s", "share",
              "lowest", "highest", "scratch KiB", options.threads > 1 ? "  busiest" : "");
  for (const Isa isa : options.isas) {
    const Peak peak = make_peak<T>(options.peak.value_or(isa));
    for (const Case& work : all) {
      if (options.quick && !work.quick) continue;
      if ((work.kernel + ' ' + work.shape).find(options.only) == std::string::npos) continue;
      Context::Options context_options;
      context_options.threads = options.threads;
      context_options.isa = isa;
      const Context context(context_options);
      const Work ready = work.prepare(context);
      const Measurement measurement = measure(ready.run, ready.useful_flops, peak, options.rounds);
      rows.push_back({isa, &work, measurement, ready.executed_flops, ready.scratch_bytes});
      const std::vector<double> shares = measurement.shares();
      const auto [lowest, highest] = std::minmax_element(shares.begin(), shares.end());
      std::printf("%-8s %-24s %-22s %10.3f %10.1f %8.3f %8.3f %8.3f %11.1f", std::string(name(isa)).c_str(),
                  work.kernel.c_str(), work.shape.c_str(), measurement.median_wall_seconds() * 1e3,
                  ready.useful_flops / measurement.median_wall_seconds() * 1e-9, measurement.median_share(), *lowest,
                  *highest, static_cast<double>(ready.scratch_bytes) / 1024);
      if (options.threads > 1) std::printf(" %8.3f", measurement.median_busiest_share());
      std::printf("\n");
      std::fflush(stdout);
      if (options.peak.value_or(isa) == isa && !(measurement.median_share() <= 1.0)) {
        std::fprintf(stderr, "error: a share above 1: the peak loop did not reach the peak\n");
        status = 1;
      }
    }
  }
  if (!options.json.empty()) write_json(options, rows);
  return status;
}

}  // namespace
}  // namespace ennead::bench

int main(int argc, char** argv) {
  const ennead::bench::Options options = ennead::bench::parse({argv + 1, argv + argc});
  return options.float64 ? ennead::bench::run<double>(options) : ennead::bench::run<float>(options);
}
