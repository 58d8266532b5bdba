// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Assembles instructions with LLVM, for tests that run single ones.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace heddle::amdgpu {

// The bytes of the instructions, without anything around them, for waves of 64 or of 32 lanes where a processor has both (0: its default). Throws with
// LLVM's message if the text is not accepted.
std::vector<std::byte> assemble(const std::string& processor, const std::string& text, unsigned wave_size = 0);

}  // namespace heddle::amdgpu
