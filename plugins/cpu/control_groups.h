// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the control groups of this process leave it of processors and memory, in version 2 of cgroups and in version 1. Called when devices are
// enumerated and opened; knows nothing of devices.
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

// The tightest limits of the process's groups and all above them. `root` is where /proc and /sys are; without a slash at its end.
GroupLimits group_limits(const std::string& root = {});
// Threads of each of `devices` devices of `cores` cores: one for each whole processor that the groups leave it, and at least one; at most `wanted`, if
// that is not 0, and one a core.
uint32_t threads_within(const GroupLimits& limits, uint32_t devices, uint32_t wanted, size_t cores) noexcept;

}  // namespace heddle::cpu
#endif  // HEDDLE_CPU_CONTROL_GROUPS_H_
