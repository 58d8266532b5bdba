// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of instructions without what differs between processors and encodings, as the tables of the interpreter have them. Used by tests that compare
// the instructions of compiled kernels with those that are tested.
#pragma once

#include <string>
#include <vector>

namespace heddle::amdgpu {

// Of the text of one instruction, "v_dual_mov_b32 v0, v1 :: v_dual_add_f32 v3, v0, v1": both of a pair.
std::vector<std::string> mnemonics_of(const std::string& text);

}  // namespace heddle::amdgpu
