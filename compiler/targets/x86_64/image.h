// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Links objects into one image of format x86_64-elf/1, in this process. Called by assemble(); knows no MLIR.
#pragma once

#include <string>
#include <vector>

namespace heddle::targets::x86_64 {

// The image, or an empty vector and the reason in `error`. Thread-safe: links one at a time, since the linker has global state.
std::vector<char> link_image(const std::vector<std::vector<char>>& objects, std::string& error);

}  // namespace heddle::targets::x86_64
