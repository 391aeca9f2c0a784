// SPDX-License-Identifier: Apache-2.0
#include "harness/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace ennead::harness {
namespace {

struct Unit {
  double size;
  const char* name;
};

/// As printf writes it: "%.*f" or "%.*e".
std::string printed(const char* format, int digits, double value) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, digits, value)), '\0');
  std::snprintf(text.data(), text.size() + 1, format, digits, value);
  return text;
}

/// With the largest unit that leaves at least 1 in front of the point.
template <std::size_t Count>
std::string with_unit(double value, const std::array<Unit, Count>& units) {
  if (!std::isfinite(value)) return "-";
  const Unit* unit = &units.back();
  for (const Unit& each : units) {
    if (value >= each.size * 0.9995) {
      unit = &each;
      break;
    }
  }
  return significant(value / unit->size) + " " + unit->name;
}

}  // namespace

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  // Of the rounded value: 0.9996 to three digits has one digit in front of the point.
  const double rounded = std::strtod(printed("%.*e", digits - 1, value).c_str(), nullptr);
  const int before_point = static_cast<int>(std::floor(std::log10(std::abs(rounded)) + 1e-9)) + 1;
  return printed("%.*f", std::clamp(digits - before_point, 0, 12), value);
}

std::string duration(double ns) {
  return with_unit(ns, std::array<Unit, 4>{{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}});
}

std::string milliseconds(double ns) { return significant(ns / 1e6); }

std::string bytes(double count) {
  if (std::isfinite(count) && count < 1000) return printed("%.*f", 0, count) + " B";
  return with_unit(count, std::array<Unit, 5>{{{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}});
}

std::string flops(double count) {
  if (count == 0) return "0";
  return with_unit(count, std::array<Unit, 5>{{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}});
}

std::string flop_rate(double per_second) { return std::isfinite(per_second) ? flops(per_second) + "FLOP/s" : "-"; }

std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  return printed("%.*f", std::abs(share) < 0.0995 ? 1 : 0, share * 100) + "%";
}

std::string small(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "-" : "inf";
  return value == 0 ? "0" : printed("%.*e", 1, value);
}

}  // namespace ennead::harness
