// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a SPIR-V module says of itself, read before a driver's compiler gets it. By Khronos' SPIR-V specification, sections 2.3 and 3.
#ifndef HEDDLE_LEVEL_ZERO_SPIRV_H_
#define HEDDLE_LEVEL_ZERO_SPIRV_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heddle/status.h"

namespace heddle::level_zero {

struct SpirvParameter {
  enum Kind { kGlobalPointer, kLocalPointer, kInteger, kOther };
  Kind kind = kOther;
  uint32_t bits = 0;  // of an integer; 0 for others
};

struct SpirvKernel {
  std::shared_ptr<const std::vector<SpirvParameter>> parameters;  // of its type, which kernels can share
  uint32_t local_size[3] = {};                                    // 0: any
};

struct SpirvModule {
  uint32_t version = 0;  // 0x10200: 1.2
  std::vector<uint32_t> capabilities;
  std::map<std::string, SpirvKernel, std::less<>> kernels;
};

// OK, or why it is damaged, or not a module of kernels with 64-bit addresses that "spirv/1" allows. The bytes may have any alignment and be hostile:
// memory grows with their number, and time with its product with a logarithm.
heddle_status_code_t read_spirv(const void* code, size_t bytes, SpirvModule* out, std::string* out_reason);
// "Float64"; "capability 4711" for one that "spirv/1" does not allow.
std::string capability_name(uint32_t capability);
bool is_known_capability(uint32_t capability) noexcept;

constexpr uint32_t kFloat64 = 10, kFloat16 = 9, kInt64Atomics = 12, kSubgroupDispatch = 58, kGroupNonUniform = 61,
                   kGroupNonUniformShuffle = 65, kDotProductInput4x8BitPacked = 6018, kDotProduct = 6019;

}  // namespace heddle::level_zero
#endif  // HEDDLE_LEVEL_ZERO_SPIRV_H_
