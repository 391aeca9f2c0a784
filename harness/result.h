// SPDX-License-Identifier: Apache-2.0
// A result file: what was measured, where, and every sample. docs/results.md describes the fields.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ennead/error.h"

namespace ennead::harness {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Shape {
  std::int64_t batch = 8, num_tokens = 1024, d_in = 768, d_out = 768, num_heads = 12;
  bool is_causal = true, qkv_bias = false;

  bool operator==(const Shape&) const = default;
};

struct WorkRecord {
  Shape shape;
  std::string pass = "forward";  ///< or "forward-backward"
  std::string dtype = "float32";
  std::uint64_t seed = 0;
};

struct MachineRecord {
  std::string cpu;
  std::array<std::int64_t, 3> caches{};  ///< bytes of L1 data, L2, L3; 0: unknown
  std::string isa;
  int threads = 0, available_threads = 0;
  std::string os;
};

struct BuildRecord {
  std::string commit, compiler, flags;
};

/// One bar. Numbers that were not measured are kUnknown (null in the file).
struct Bar {
  int number = 0;
  std::string slug, title;
  std::vector<std::int64_t> samples_ns;
  double median_ns = kUnknown;
  double spread = kUnknown;  ///< half the distance of the quartiles, relative to the median
  double ratio_to_1 = kUnknown;
  std::array<double, 2> ratio_interval{kUnknown, kUnknown};
  double share_of_peak = kUnknown;
  double useful_flops = kUnknown, executed_flops = kUnknown;
  std::int64_t peak_bytes = -1;  ///< -1: unknown
  double plan_ns = kUnknown;
  double cpu_share = kUnknown;
  double max_abs_err = kUnknown;
  bool ok = false;
};

struct Result {
  WorkRecord work;
  MachineRecord machine;
  BuildRecord build;
  std::vector<double> peak_flops;        ///< every reading, FLOPs per second
  int base = 1;                          ///< the number whose times ratio_to_1 divides by
  double ratio_coverage = kUnknown;      ///< how often such intervals hold the truth
  double largest_difference = kUnknown;  ///< between any two outputs, over all their numbers
  bool interrupted = false;
  std::vector<std::string> warnings;
  std::vector<Bar> results;

  /// The best of the readings; 0 when there are none.
  double best_peak() const;
  /// Rounds that every bar that was measured at all took part in.
  std::size_t rounds() const;
  /// Whether there is an interval for the ratios: it takes two rounds.
  bool has_intervals() const { return rounds() >= 2; }
  /// Whether the intervals hold the truth as often as they are meant to (kConfidence).
  bool enough_rounds() const;
};

std::string to_json(const Result& result);
/// Throws Error when the text is not such a file.
Result result_from_json(const std::string& text);

}  // namespace ennead::harness
