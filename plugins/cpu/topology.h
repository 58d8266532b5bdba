// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which processors this process may use, which of them share a core, and which NUMA node they belong to. Called when devices are
// enumerated and opened; hwloc is opened only if a NUMA node is requested.
#ifndef HEDDLE_CPU_TOPOLOGY_H_
#define HEDDLE_CPU_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cpu {

// Contents of a small file, without the newline at its end; empty if it cannot be read.
std::string read_small(const std::string& path);
// Processors the process may run on, ascending; never empty.
std::vector<uint32_t> allowed_cpus();
// One processor of each physical core, in order.
std::vector<uint32_t> one_per_core(const std::vector<uint32_t>& cpus);
// "0-3,8" to {0,1,2,3,8}; false for anything else.
bool parse_cpu_list(std::string_view text, std::vector<uint32_t>* out);
// Processors of a NUMA node, through hwloc; false with a reason if hwloc or the node is missing.
bool cpus_of_numa_node(int32_t node, std::vector<uint32_t>* out, std::string* reason);
// The processors of one NUMA node, ascending; -1: those whose node is unknown.
struct NodeCpus {
  int32_t node;
  std::vector<uint32_t> cpus;
};
// The system's nodes that have processors, ascending. `root` is the directory that contains /sys, without a trailing slash.
std::vector<NodeCpus> numa_nodes(const std::string& root = {});
// Groups the processors, which are ascending, by node, ascending, too; those of unknown nodes come last.
std::vector<NodeCpus> by_numa_node(const std::vector<uint32_t>& cpus, const std::vector<NodeCpus>& nodes);
// All processors, node by node.
std::vector<uint32_t> joined(const std::vector<NodeCpus>& nodes);
// Divides them into `count` disjoint groups, each ascending, node by node: with as many groups as equal nodes each node is a group. With fewer
// processors than groups, groups share processors.
std::vector<std::vector<uint32_t>> split(const std::vector<NodeCpus>& nodes, uint32_t count);
uint64_t physical_memory_bytes() noexcept;
std::string cpu_name();

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_TOPOLOGY_H_
