// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads /proc/self/cgroup and the files that it names below /sys/fs/cgroup. Formats: cgroups(7), and the kernel's admin-guide/cgroup-v2 and
// admin-guide/cgroup-v1.
#include "cpu/control_groups.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cpu/topology.h"

namespace heddle::cpu {
namespace {

// The first word of a small file, and the second one; missing ones stay empty.
void read_words(const std::string& path, std::string_view* first, std::string_view* second, std::string* text) {
  *text = read_small(path);
  std::string_view rest = *text;
  for (std::string_view* word : {first, second}) {
    if (!word) continue;
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
    *word = rest.substr(0, rest.find_first_of(" \t\n"));
    rest.remove_prefix(word->size());
  }
}

// False for "max", for negative numbers (version 1's notation for no limit), and for anything that is not a number.
bool parse(std::string_view text, uint64_t* out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *out);
  return !text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

void lower(uint64_t* limit, uint64_t to) {
  *limit = std::min(*limit, to);
}

void lower_time(GroupLimits* limits, std::string_view quota, std::string_view period) {
  uint64_t microseconds = 0, of = 0;
  if (!parse(quota, &microseconds) || !parse(period, &of) || of == 0 || microseconds > UINT64_MAX / 1000) return;
  lower(&limits->processor_thousandths, std::max<uint64_t>(microseconds * 1000 / of, 1));
}

// The controllers whose files a group has. In version 2 one group has those of both, with other names than in version 1.
enum Controllers : unsigned { kTime = 1, kMemory = 2, kVersion2 = 4 };

void read_group(const std::string& folder, unsigned controllers, GroupLimits* limits) {
  std::string text, second_text;
  std::string_view first, second;
  if (controllers & kVersion2) {
    read_words(folder + "/cpu.max", &first, &second, &text);
    lower_time(limits, first, second);
  } else if (controllers & kTime) {
    read_words(folder + "/cpu.cfs_quota_us", &first, nullptr, &text);
    read_words(folder + "/cpu.cfs_period_us", &second, nullptr, &second_text);
    lower_time(limits, first, second);
  }
  if (controllers & (kVersion2 | kMemory)) {
    uint64_t bytes = 0;
    read_words(folder + (controllers & kVersion2 ? "/memory.max" : "/memory.limit_in_bytes"), &first, nullptr, &text);
    if (parse(first, &bytes)) lower(&limits->memory_bytes, bytes);
  }
}

// A group and all its parents. In a container the path may be the host's, of which only the mounted end exists: the rest has no files.
void read_path(const std::string& mount, std::string_view path, unsigned controllers, GroupLimits* limits) {
  for (;;) {
    if (path == "/") path = {};  // the mount itself
    read_group(mount + std::string(path), controllers, limits);
    const size_t slash = path.find_last_of('/');
    if (slash == std::string_view::npos) break;
    path = path.substr(0, slash);
  }
}

}  // namespace

GroupLimits group_limits(const std::string& root) {
  GroupLimits limits;
  const std::string mounts = root + "/sys/fs/cgroup";
  const std::string groups = read_small(root + "/proc/self/cgroup");
  // Each line is "number:controllers:path"; version 2 has no controllers in it.
  for (std::string_view rest = groups; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view path = line.substr(second + 1);
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) {
      read_path(mounts, path, kVersion2, &limits);
      read_path(mounts + "/unified", path, kVersion2, &limits);  // next to hierarchies of version 1
    }
    while (!controllers.empty()) {
      const std::string_view controller = controllers.substr(0, controllers.find(','));
      controllers.remove_prefix(std::min(controller.size() + 1, controllers.size()));
      if (controller == "cpu") read_path(mounts + "/cpu", path, kTime, &limits);
      if (controller == "memory") read_path(mounts + "/memory", path, kMemory, &limits);
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
