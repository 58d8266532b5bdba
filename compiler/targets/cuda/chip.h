// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The NVIDIA GPUs that code is made for. Read by every emitter of this directory; knows no op.
#pragma once

#include <cstdint>
#include <string_view>

namespace heddle::targets::cuda {

struct Chip {
  std::string_view name;        // as code.h spells it, and LLVM's name of the CPU
  std::string_view ptx;         // LLVM's name of the PTX version
  int64_t shared_memory_bytes;  // of one workgroup, at most (CUDA C++ Programming Guide, "Compute Capabilities")
  bool has_clusters;            // workgroups of a cluster read each other's shared memory (PTX ISA, "Cluster of Cooperative Thread Arrays")
  bool starts_early;            // a kernel may start before the previous one has finished (PTX ISA, griddepcontrol)
};

inline constexpr Chip sm_80{"sm_80", "+ptx80", 163 * 1024, false, false};
inline constexpr Chip sm_90a{"sm_90a", "+ptx80", 227 * 1024, true, true};

inline constexpr int64_t subgroup_size = 32;

}  // namespace heddle::targets::cuda
