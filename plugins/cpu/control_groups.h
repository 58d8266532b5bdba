// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processors and memory that the control groups of this process allow, for versions 1 and 2 of cgroups. Called when devices are enumerated and
// opened; knows nothing of devices.
#ifndef HEDDLE_CPU_CONTROL_GROUPS_H_
#define HEDDLE_CPU_CONTROL_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::cpu {

struct GroupLimits {
  uint64_t processor_thousandths = UINT64_MAX;  // processor time in 1/1000 of a processor; UINT64_MAX: no limit
  uint64_t memory_bytes = UINT64_MAX;
};

// The tightest limits of the process's groups and all their parents. `root` is the directory that contains /proc and /sys, without a trailing slash.
GroupLimits group_limits(const std::string& root = {});
// Threads of each of `devices` devices with `cores` cores: one per whole processor that the groups allow, at least one, at most one per core, and
// at most `wanted` if that is not 0.
uint32_t threads_within(const GroupLimits& limits, uint32_t devices, uint32_t wanted, size_t cores) noexcept;

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_CONTROL_GROUPS_H_
