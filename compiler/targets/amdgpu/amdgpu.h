// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for AMD GPUs by LLVM's AMDGPU code generator, with only `rows`, `gemv` and `generic`: "hsaco/1" for a chip (chip.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/targets/target.h"

namespace heddle::targets {

// One of amdgpu_chips(); null for others.
std::unique_ptr<Target> make_amdgpu_target(std::string_view chip);
// "gfx90a" and others.
std::vector<std::string> amdgpu_chips();

void register_amdgpu_dialects(mlir::DialectRegistry& registry);

}  // namespace heddle::targets
