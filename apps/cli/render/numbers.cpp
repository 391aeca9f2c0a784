// SPDX-License-Identifier: Apache-2.0
#include "render/numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace ennead::render {
namespace {

struct Unit {
  double size;
  const char* name;
};

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
  return fmt::format("{} {}", significant(value / unit->size), unit->name);
}

}  // namespace

std::string significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  // Of the rounded value: 0.9996 to three digits has one digit in front of the point.
  const double rounded = std::stod(fmt::format("{:.{}e}", value, digits - 1));
  const int before_point = static_cast<int>(std::floor(std::log10(std::abs(rounded)) + 1e-9)) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(digits - before_point, 0, 12));
}

std::string duration(double ns) {
  return with_unit(ns, std::array<Unit, 4>{{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}});
}

std::string milliseconds(double ns) { return significant(ns / 1e6); }

std::string bytes(double count) {
  if (std::isfinite(count) && count < 1000) return fmt::format("{:.0f} B", count);
  return with_unit(count, std::array<Unit, 5>{{{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}});
}

std::string flops(double count) {
  if (count == 0) return "0";
  return with_unit(count, std::array<Unit, 5>{{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}});
}

std::string flop_rate(double per_second) { return std::isfinite(per_second) ? flops(per_second) + "FLOP/s" : "-"; }

std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  return fmt::format("{:.{}f}%", share * 100, std::abs(share) < 0.0995 ? 1 : 0);
}

std::string small(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "-" : "inf";
  return value == 0 ? "0" : fmt::format("{:.1e}", value);
}

}  // namespace ennead::render
