// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels as SPIR-V for drivers of Level Zero and OpenCL, with only `rows`, `gemv` and `generic`: "spirv/1".
#pragma once

#include <memory>
#include <string_view>

#include "compiler/targets/target.h"

namespace heddle::targets {

// The only target of the format.
inline constexpr std::string_view spirv_level = "spv1.0";

// link() gives a module of SPIR-V 1.0 with 64-bit addresses (Khronos' OpenCL SPIR-V Environment Specification): each kernel takes its bindings'
// addresses, which point to global memory, then the symbols as 64-bit integers, then its shared memory, if it has any.
std::unique_ptr<Target> make_spirv_target();

void register_spirv_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
