// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrix products and convolutions by tiles of the result, which workgroups compute from local memory.
#pragma once

#include "compiler/targets/amdgpu/chip.h"
#include "compiler/targets/generic_threads.h"

namespace heddle::targets::amdgpu {

// The machine must open kernels of LLVM (llvm_kernel_builder.h).
std::unique_ptr<Strategy> tiled_contractions(ThreadMachine machine, const Chip& chip);

}  // namespace heddle::targets::amdgpu
