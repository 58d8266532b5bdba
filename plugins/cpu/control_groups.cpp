// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads /proc/self/cgroup and the files that it names below /sys/fs/cgroup. Formats: cgroups(7), and the kernel's admin-guide/cgroup-v2 and
// admin-guide/cgroup-v1.
#include "cpu/control_groups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

namespace heddle::cpu {
namespace {

// The first words of a small file; missing ones stay empty.
void read_words(const std::string& path, std::string* first, std::string* second = nullptr) {
  std::ifstream file(path);
  file >> *first;
  if (second) file >> *second;
}

// False for "max", for negative numbers (version 1's notation for no limit), and for anything that is not a number.
bool parse(const std::string& text, uint64_t* out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *out);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

void lower(uint64_t* limit, uint64_t to) {
  *limit = std::min(*limit, to);
}

void lower_time(GroupLimits* limits, const std::string& quota, const std::string& period) {
  uint64_t microseconds = 0, of = 0;
  if (!parse(quota, &microseconds) || !parse(period, &of) || of == 0 || microseconds > UINT64_MAX / 1000) return;
  lower(&limits->processor_thousandths, std::max<uint64_t>(microseconds * 1000 / of, 1));
}

// The directory of one group: its limits, from either version's files.
void read_group(const std::string& folder, GroupLimits* limits) {
  std::string quota, period, memory;
  read_words(folder + "/cpu.max", &quota, &period);
  lower_time(limits, quota, period);
  quota.clear(), period.clear();
  read_words(folder + "/cpu.cfs_quota_us", &quota);
  read_words(folder + "/cpu.cfs_period_us", &period);
  lower_time(limits, quota, period);
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    uint64_t bytes = 0;
    memory.clear();
    read_words(folder + name, &memory);
    if (parse(memory, &bytes)) lower(&limits->memory_bytes, bytes);
  }
}

// A group and all its parents. In a container the path may be the host's, of which only the mounted end exists: the rest has no files.
void read_path(const std::string& mount, std::string_view path, GroupLimits* limits) {
  for (;;) {
    read_group(mount + std::string(path), limits);
    const size_t slash = path.find_last_of('/');
    if (path.empty() || slash == std::string_view::npos) break;
    path = path.substr(0, slash);
  }
}

}  // namespace

GroupLimits group_limits(const std::string& root) {
  GroupLimits limits;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  // Each line is "number:controllers:path"; version 2 has no controllers in it.
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    if (second == first + 1) {
      read_path(mounts, path, &limits);
      read_path(mounts + "/unified", path, &limits);
    }
    for (std::string controller; std::getline(controllers, controller, ',');) {
      if (controller == "cpu" || controller == "memory") read_path(mounts + "/" + controller, path, &limits);
    }
  }
  return limits;
}

uint32_t threads_within(const GroupLimits& limits, uint32_t devices, uint32_t wanted, size_t cores) noexcept {
  // A fraction of a processor is left to the application's threads: a thread that uses up the quota sleeps for the rest of the period.
  uint64_t most = std::max<uint64_t>(limits.processor_thousandths / 1000 / devices, 1);
  if (wanted != 0) most = std::min<uint64_t>(most, wanted);
  return static_cast<uint32_t>(std::min<uint64_t>(most, cores));
}

}  // namespace heddle::cpu
