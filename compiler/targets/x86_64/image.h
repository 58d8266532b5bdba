// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links objects into one image of format x86_64-elf/1, in this process. Called by the target; knows no MLIR.
#pragma once

#include <string>
#include <vector>

#include "compiler/targets/target.h"

namespace heddle::targets::x86_64 {

// The image, whose only symbols are the kernels, or an empty vector and the reason in `error`. Thread-safe: links one image at a time, since the
// linker has global state.
std::vector<char> link_image(llvm::ArrayRef<llvm::ArrayRef<char>> objects, llvm::ArrayRef<LinkedKernel> kernels, std::string& error);

}  // namespace heddle::targets::x86_64
