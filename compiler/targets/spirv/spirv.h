// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels as SPIR-V for OpenCL and Level Zero, with only `rows`, `gemv` and `generic`. No driver loads them yet and `heddle compile` does not offer
// them; tests run them on an OpenCL device.
#pragma once

#include <memory>

#include "compiler/targets/target.h"

namespace heddle::targets {

// generate() gives a SPIR-V 1.2 module with 64-bit addresses (Khronos' OpenCL SPIR-V Environment Specification): each kernel takes its bindings'
// addresses, which point to global memory, then the symbols as 64-bit integers.
std::unique_ptr<Target> make_spirv_target();

void register_spirv_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
