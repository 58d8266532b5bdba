// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels as SPIR-V for drivers of Level Zero and OpenCL, with only `rows`, `gemv` and `generic`: "spirv/1".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/targets/target.h"

namespace heddle::targets {

// "spv1.0" for any device, "spv1.3-sg32" for those with subgroups of 32 threads that exchange values; null for others. link() gives a module with 64-bit
// addresses (Khronos' OpenCL SPIR-V Environment Specification): each kernel takes its bindings' addresses, which point to global memory, then the symbols
// as 64-bit integers, then its shared memory, if it has any.
std::unique_ptr<Target> make_spirv_target(std::string_view name);
std::vector<std::string> spirv_levels();

void register_spirv_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
