// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
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
  for (const std::string& folder : version2_folders()) {
    const auto limit = read_number(folder + "/memory.max");
    const auto used = read_number(folder + "/memory.current");
    if (limit && used) left = std::min(left, std::max(0.0, *limit - *used));
  }
  const auto limit = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const auto used = read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes");
  if (limit && used) left = std::min(left, std::max(0.0, *limit - *used));
  if (left >= 9e18) return std::numeric_limits<std::size_t>::max();
  return static_cast<std::size_t>(left);
}

}  // namespace ennead::base
