// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From kernels in func, scf, arith, math, vector and LLVM ops to bytes: what all targets that go through LLVM share. Called by their
// lower.cpp; knows no format.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/targets/expand_math.h"
#include "llvm/Support/CodeGen.h"
#include "mlir/IR/BuiltinOps.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace heddle::targets {

// LLVM's code generator for a triple, which the caller has initialized; null, with an error text, for what LLVM does not know.
std::unique_ptr<llvm::TargetMachine> make_llvm_machine(llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features,
                                                       std::optional<llvm::Reloc::Model> relocation, std::string& error);

// Everything to the LLVM dialect. Any number of threads may do that with modules of one context, if load_lowering_dialects was called before.
mlir::LogicalResult lower_to_llvm(mlir::ModuleOp unit, const ScaleByPower& scale = {});

// Loads what lower_to_llvm needs.
void load_lowering_dialects(mlir::MLIRContext& context);

// LLVM's O3 pipeline, then the machine's code. Deterministic. Returns an error text, empty for success.
std::string generate_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type, std::vector<char>& bytes);

}  // namespace heddle::targets
