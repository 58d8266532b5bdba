// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which processors this process may use, which of them share a core, and which NUMA node they belong to. Called when devices are
// enumerated and opened; hwloc is opened only when a NUMA node is asked for.
#ifndef HEDDLE_CPU_TOPOLOGY_H_
#define HEDDLE_CPU_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::cpu {

// Processors the process may run on, ascending; never empty.
std::vector<uint32_t> allowed_cpus();
// One processor of each physical core, in order.
std::vector<uint32_t> one_per_core(const std::vector<uint32_t>& cpus);
// "0-3,8" to {0,1,2,3,8}; false for anything else.
bool parse_cpu_list(std::string_view text, std::vector<uint32_t>* out);
// Processors of a NUMA node, through hwloc; false with a reason if hwloc or the node is not there.
bool cpus_of_numa_node(int32_t node, std::vector<uint32_t>* out, std::string* reason);
// The NUMA node that all of the processors belong to; -1 if there is none.
int32_t numa_node_of(const std::vector<uint32_t>& cpus);
uint64_t physical_memory_bytes() noexcept;
std::string cpu_name();

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_TOPOLOGY_H_
