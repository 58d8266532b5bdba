// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images of format hsaco/1: links the objects of kernels into one, and compares what it says of them with the chip's limits. Called by the target.
#pragma once

#include <string>
#include <vector>

#include "compiler/targets/amdgpu/chip.h"
#include "compiler/targets/target.h"
#include "llvm/Support/Error.h"

namespace heddle::targets::amdgpu {

// The image, which exports each kernel and its descriptor. Each object has the kernel of the same position.
llvm::Expected<std::vector<char>> link_image(llvm::ArrayRef<llvm::ArrayRef<char>> objects, const Chip& chip,
                                             llvm::ArrayRef<LinkedKernel> kernels);

// Fills in the resources of the image's kernels. Fails for a kernel that the chip cannot run, or whose arguments are not as code.h has them.
llvm::Error inspect_image(llvm::ArrayRef<char> image, const Chip& chip, llvm::ArrayRef<LinkedKernel> kernels,
                          llvm::MutableArrayRef<KernelResources> resources);

}  // namespace heddle::targets::amdgpu
