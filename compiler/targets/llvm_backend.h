// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From kernels in func, scf, arith, math, vector and LLVM ops to bytes; shared by all targets that use LLVM. Called by their lower.cpp; knows no
// format.
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

// LLVM's code generator for a triple, which the caller has initialized; null, with an error text, if LLVM does not know it.
std::unique_ptr<llvm::TargetMachine> make_llvm_machine(llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features,
                                                       std::optional<llvm::Reloc::Model> relocation, std::string& error);

// Lowers everything to the LLVM dialect. Any number of threads may do so with modules of one context, if load_lowering_dialects was called before.
mlir::LogicalResult lower_to_llvm(mlir::ModuleOp unit, const ScaleByPower& scale = {});

// Loads the dialects that lower_to_llvm needs.
void load_lowering_dialects(mlir::MLIRContext& context);

// Runs LLVM's O3 pipeline, then generates machine code. Deterministic. Returns an error text, empty for success.
std::string generate_code(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type, std::vector<char>& bytes);

}  // namespace heddle::targets
