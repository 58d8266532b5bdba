// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for AMD GPUs by LLVM's AMDGPU code generator, with only `rows`, `gemv` and `generic`. No driver loads them yet and `heddle compile` does
// not offer them; tests disassemble them.
#pragma once

#include <memory>

#include "compiler/targets/target.h"

namespace heddle::targets {

// "gfx942"; null for others. generate() gives a relocatable AMDGPU object (LLVM's AMDGPUUsage): each kernel takes its bindings' addresses, then the
// symbols as 64-bit integers.
std::unique_ptr<Target> make_amdgpu_target(std::string_view chip);

void register_amdgpu_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
