// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax between two products as one kernel, which goes through the keys in blocks.
#pragma once

#include "compiler/targets/amdgpu/chip.h"
#include "compiler/targets/generic_threads.h"

namespace heddle::targets::amdgpu {

// The machine must open kernels of LLVM (llvm_kernel_builder.h).
std::unique_ptr<Strategy> attention_by_blocks(ThreadMachine machine, const Chip& chip);

}  // namespace heddle::targets::amdgpu
