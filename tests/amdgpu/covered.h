// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The instructions that tests of the interpreter execute, each in the result of a test: alone (single.h), or in a kernel (harness.h). covered_test.cpp
// compares them with covered_instructions.h, and tests/compiler the instructions of compiled kernels with that.
#pragma once

#include <set>
#include <string>

namespace heddle::amdgpu {

// Those of this process so far, by the names of mnemonics.h.
inline std::set<std::string>& covered_instructions() {
  static std::set<std::string> names;
  return names;
}

}  // namespace heddle::amdgpu
