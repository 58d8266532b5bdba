// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles regions for AMD GPUs, disassembles their images and, in a build with the interpreter of tests/amdgpu, runs them in it. Used by tests of
// targets.
#pragma once

#include <string>
#include <vector>

#include "tests/compiler/expected.h"

namespace heddle::tests {

// EXPECTs for every chip that the image of the region's kernel is one that a driver can load, that it spills nothing, and, if it is run, that it gives
// the results wanted and touches only its operands and results.
void check_on_amdgpu(tx::DispatchOp region, const std::vector<Tensor>& operands, const Expected& wanted, const CheckOptions& options);

// Runs some workgroups of a kernel, by their numbers, on bindings of these bytes, of which the last `results` may be written. What went wrong; empty if
// nothing did, and nothing is run without the interpreter. `instructions` becomes the number of instructions of waves.
std::string run_workgroups(const CompiledKernel& kernel, llvm::ArrayRef<llvm::MutableArrayRef<char>> bindings, size_t results,
                           llvm::ArrayRef<uint64_t> workgroups, uint64_t* instructions = nullptr);
bool has_amdgpu_interpreter();

// The instructions of a kernel for an AMD GPU, a line each; empty without a disassembler.
std::string assembly_of(const CompiledKernel& kernel);

}  // namespace heddle::tests
