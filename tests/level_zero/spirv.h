// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the stand-in for a Level Zero driver has to know of a SPIR-V module: its kernels and their arguments. Khronos' SPIR-V specification, 2.3
// (layout of a module) and 3.49 (instructions).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle::level_zero_stand_in {

struct ArgumentInfo {
  enum Kind { kValue, kGlobal, kLocal, kUnknown };
  Kind kind = kUnknown;
  size_t size = 0;  // of kValue, in bytes; 0: not known
};

struct KernelInfo {
  std::string name;
  std::vector<ArgumentInfo> arguments;
  uint32_t required_group[3] = {0, 0, 0};  // 0: any
  uint32_t required_subgroup = 0;          // 0: any
  uint64_t local_bytes = 0;                // of the variables in local memory that it uses
};

// Reads the kernels of a module. Empty if all is well, else what is wrong with it.
std::string read_kernels(const std::vector<uint32_t>& words, std::vector<KernelInfo>* out);

// Replaces specialization constants, by their number, with values of at most 8 bytes. Empty if all is well.
std::string specialize(std::vector<uint32_t>* words, const std::map<uint32_t, const void*>& values);

}  // namespace heddle::level_zero_stand_in
