// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels as SPIR-V for drivers of Level Zero and OpenCL, with only `rows`, `gemv`, `dots` and `generic`: "spirv/1".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/targets/target.h"

namespace heddle::targets {

// "spv1.0" for any device, "spv1.3-sg32" for those with subgroups of 32 threads that exchange values; each with "-dp4a" for those that also add up four
// products of bytes at once; null for others. link() gives a module with 64-bit
// addresses (Khronos' OpenCL SPIR-V Environment Specification): each kernel takes its bindings' addresses, which point to global memory, then the symbols
// as 64-bit integers, then its shared memory, if it has any.
std::unique_ptr<Target> make_spirv_target(std::string_view name);
std::vector<std::string> spirv_levels();
// The level whose code is the same as this one's for kernels of these strategies; empty: none.
std::string spirv_level_below(std::string_view name, const std::vector<std::string>& strategies);

void register_spirv_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
