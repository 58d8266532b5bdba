// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From kernels in func, scf, arith, math, vector and LLVM ops to bytes: what all targets that go through LLVM share. Called by their
// lower.cpp; knows no format.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/CodeGen.h"
#include "mlir/Pass/PassManager.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace heddle::targets {

// Everything to the LLVM dialect.
void add_lowering(mlir::OpPassManager& passes);

// LLVM's O3 pipeline, then the machine's code. Deterministic. Returns an error text, empty for success.
std::string generate_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type, std::vector<char>& bytes);

}  // namespace heddle::targets
