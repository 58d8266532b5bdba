// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads sched_getaffinity, CPUID and, if threads share cores, sysfs; uses hwloc late and through dlopen.
#include "cpu/topology.h"

#include <cpuid.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace heddle::cpu {
std::string read_small(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text;
  char part[1024];  // if processor numbers alternate between nodes, a node's list names each of them
  for (ssize_t size; (size = read(file, part, sizeof part)) > 0 && text.size() < (1u << 20);) text.append(part, static_cast<size_t>(size));
  close(file);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::vector<uint32_t> allowed_cpus() {
  std::vector<uint32_t> cpus;
  for (int cpu_capacity = 1024; cpu_capacity <= 1 << 20; cpu_capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpu_capacity);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(cpu_capacity);
    CPU_ZERO_S(bytes, set);
    const int failed = sched_getaffinity(0, bytes, set);
    const int error = errno;
    if (!failed) {
      constexpr int kBits = 8 * sizeof(set->__bits[0]);
      for (int first = 0; first < cpu_capacity; first += kBits) {
        if (set->__bits[first / kBits] == 0) continue;  // most of the set
        for (int cpu = first; cpu < first + kBits; ++cpu) {
          if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(static_cast<uint32_t>(cpu));
        }
      }
    }
    CPU_FREE(set);
    if (!failed || error != EINVAL) break;  // EINVAL: more processors than fit into the set
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

std::vector<uint32_t> one_per_core(const std::vector<uint32_t>& cpus) {
  if (cpus.size() < 2 || read_small("/sys/devices/system/cpu/smt/active") != "1") return cpus;
  std::vector<uint32_t> firsts, taken;
  for (uint32_t cpu : cpus) {
    if (std::find(taken.begin(), taken.end(), cpu) != taken.end()) continue;
    firsts.push_back(cpu);
    char path[96];
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    std::vector<uint32_t> siblings;
    if (parse_cpu_list(read_small(path), &siblings)) taken.insert(taken.end(), siblings.begin(), siblings.end());
  }
  return firsts;
}

bool parse_cpu_list(std::string_view text, std::vector<uint32_t>* out) {
  constexpr uint32_t kMost = 1 << 20;
  out->clear();
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    uint32_t first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc()) return false;
    at = parsed.ptr;
    uint32_t last = first;
    if (at != end && *at == '-') {
      parsed = std::from_chars(at + 1, end, last);
      if (parsed.ec != std::errc()) return false;
      at = parsed.ptr;
    }
    if (last < first || last >= kMost) return false;
    for (uint32_t cpu = first; cpu <= last; ++cpu) out->push_back(cpu);
    if (at == end) break;
    if (*at != ',' || at + 1 == end) return false;
    ++at;
  }
  std::sort(out->begin(), out->end());
  out->erase(std::unique(out->begin(), out->end()), out->end());
  return !out->empty();
}

bool cpus_of_numa_node(int32_t node, std::vector<uint32_t>* out, std::string* reason) {
  out->clear();
  void* library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    *reason = "libhwloc.so.15 cannot be opened; install the package libhwloc15";
    return false;
  }
  bool found = false;
#define HEDDLE_HWLOC(name) auto* name##_at = reinterpret_cast<decltype(&name)>(dlsym(library, #name))
  HEDDLE_HWLOC(hwloc_topology_init);
  HEDDLE_HWLOC(hwloc_topology_load);
  HEDDLE_HWLOC(hwloc_topology_destroy);
  HEDDLE_HWLOC(hwloc_get_type_depth);
  HEDDLE_HWLOC(hwloc_get_obj_by_depth);
  HEDDLE_HWLOC(hwloc_bitmap_next);
#undef HEDDLE_HWLOC
  hwloc_topology_t topology = nullptr;
  if (!hwloc_topology_init_at || !hwloc_topology_load_at || !hwloc_topology_destroy_at || !hwloc_get_type_depth_at ||
      !hwloc_get_obj_by_depth_at || !hwloc_bitmap_next_at) {
    *reason = "libhwloc.so.15 lacks a function; install hwloc 2";
  } else if (hwloc_topology_init_at(&topology) != 0 || hwloc_topology_load_at(topology) != 0) {
    *reason = "hwloc could not read this machine's topology";
  } else {
    const int depth = hwloc_get_type_depth_at(topology, HWLOC_OBJ_NUMANODE);
    for (unsigned i = 0;; ++i) {
      hwloc_obj_t object = hwloc_get_obj_by_depth_at(topology, depth, i);
      if (!object) break;
      if (object->os_index != static_cast<unsigned>(node) || !object->cpuset) continue;
      for (int cpu = hwloc_bitmap_next_at(object->cpuset, -1); cpu >= 0; cpu = hwloc_bitmap_next_at(object->cpuset, cpu)) {
        out->push_back(static_cast<uint32_t>(cpu));
      }
      found = !out->empty();
    }
    if (!found) *reason = "there is no NUMA node of that number with processors";
  }
  if (topology) hwloc_topology_destroy_at(topology);
  dlclose(library);
  return found;
}

std::vector<NodeCpus> numa_nodes(const std::string& root) {
  const std::string folder = root + "/sys/devices/system/node/";
  std::vector<NodeCpus> nodes;
  std::vector<uint32_t> online, its;
  if (!parse_cpu_list(read_small(folder + "online"), &online)) return nodes;
  for (uint32_t node : online) {
    // Nodes with memory only have an empty list.
    if (parse_cpu_list(read_small(folder + "node" + std::to_string(node) + "/cpulist"), &its))
      nodes.push_back({static_cast<int32_t>(node), std::move(its)});
  }
  return nodes;
}

std::vector<NodeCpus> by_numa_node(const std::vector<uint32_t>& cpus, const std::vector<NodeCpus>& nodes) {
  std::vector<NodeCpus> groups;
  std::vector<uint32_t> rest = cpus;
  for (const NodeCpus& node : nodes) {
    NodeCpus found{node.node, {}};
    std::set_intersection(rest.begin(), rest.end(), node.cpus.begin(), node.cpus.end(), std::back_inserter(found.cpus));
    if (found.cpus.empty()) continue;
    std::vector<uint32_t> left;
    std::set_difference(rest.begin(), rest.end(), node.cpus.begin(), node.cpus.end(), std::back_inserter(left));
    rest = std::move(left);
    groups.push_back(std::move(found));
  }
  if (!rest.empty()) groups.push_back({-1, std::move(rest)});
  return groups;
}

std::vector<uint32_t> joined(const std::vector<NodeCpus>& nodes) {
  std::vector<uint32_t> all;
  for (const NodeCpus& node : nodes) all.insert(all.end(), node.cpus.begin(), node.cpus.end());
  return all;
}

std::vector<std::vector<uint32_t>> split(const std::vector<NodeCpus>& nodes, uint32_t count) {
  std::vector<std::vector<uint32_t>> groups(count);
  const std::vector<uint32_t> cpus = joined(nodes);
  const size_t all = cpus.size();
  for (uint32_t i = 0; i < count; ++i) {
    if (all < count) {
      groups[i].push_back(cpus[i % all]);
    } else {
      groups[i].assign(cpus.begin() + static_cast<long>(all * i / count), cpus.begin() + static_cast<long>(all * (i + 1) / count));
    }
    std::sort(groups[i].begin(), groups[i].end());
  }
  return groups;
}

uint64_t physical_memory_bytes() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

std::string cpu_name() {
  unsigned words[12] = {};
  // Each CPUID is some microseconds in a virtual machine, and __get_cpuid executes two.
  if (__get_cpuid_max(0x80000000u, nullptr) < 0x80000004u) return "x86-64";
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    __cpuid(0x80000002u + leaf, words[leaf * 4], words[leaf * 4 + 1], words[leaf * 4 + 2], words[leaf * 4 + 3]);
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string name(text);
  while (!name.empty() && name.back() == ' ') name.pop_back();
  while (!name.empty() && name.front() == ' ') name.erase(name.begin());
  return name.empty() ? "x86-64" : name;
}

}  // namespace heddle::cpu
