// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ennead::base {
namespace {

// Version 2: "0::/a/b" in /proc/self/cgroup; limits of every ancestor apply. Inside a container
// the path often does not exist below the mount and the root of the mount is the group itself.
std::vector<std::string> version2_folders() {
  std::ifstream file("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  std::vector<std::string> folders{"/sys/fs/cgroup"};
  while (!path.empty() && path != "/") {
    folders.push_back("/sys/fs/cgroup" + path);
    path.resize(path.rfind('/'));
  }
  return folders;
}

std::optional<double> read_number(const std::string& file_name) {
  std::ifstream file(file_name);
  double value = 0;
  if (file >> value) return value;
  return {};
}

// The number after `name` in a file of "name number" lines; 0 when there is none.
double read_field(const std::string& file_name, std::string_view name) {
  std::ifstream file(file_name);
  std::string key;
  double value = 0;
  while (file >> key >> value) {
    if (key == name) return value;
  }
  return 0;
}

}  // namespace

int cgroup_cpu_quota() {
  double cpus = std::numeric_limits<double>::infinity();
  for (const std::string& folder : version2_folders()) {
    std::ifstream file(folder + "/cpu.max");
    double quota = 0;
    double period = 0;
    if (file >> quota >> period && period > 0) cpus = std::min(cpus, quota / period);
  }
  const auto quota = read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto period = read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) cpus = std::min(cpus, *quota / *period);
  if (!std::isfinite(cpus)) return 0;
  return std::max(1, static_cast<int>(std::ceil(cpus)));
}

std::size_t cgroup_memory_left() {
  double left = std::numeric_limits<double>::infinity();
  // Files cached in memory count as used but make room when somebody needs it.
  const auto apply = [&left](const std::string& limit_file, const std::string& used_file, const std::string& stat_file,
                             const char* cached) {
    const auto limit = read_number(limit_file);
    const auto used = read_number(used_file);
    if (limit && used) left = std::min(left, std::max(0.0, *limit - (*used - read_field(stat_file, cached))));
  };
  for (const std::string& folder : version2_folders()) {
    apply(folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat", "inactive_file");
  }
  const std::string version1 = "/sys/fs/cgroup/memory/memory.";
  apply(version1 + "limit_in_bytes", version1 + "usage_in_bytes", version1 + "stat", "total_inactive_file");
  if (left >= 9e18) return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(left);
}

}  // namespace ennead::base
