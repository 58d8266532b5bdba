// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a compilation does with an imported model, up to the host programs and without LLVM's part: for the harnesses of importers.
#pragma once

#include <string>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

namespace heddle::fuzz {

// Ends the process with a message if the condition does not hold: a finding.
void require(bool condition, const char* what, const std::string& detail = "");

// All dialects that importers, passes and the CPU target need, loaded.
void load_dialects(mlir::MLIRContext& context);

// Runs the passes, makes plans and kernels for the CPU, and schedules the host programs. Only a kernel may be refused, with a diagnostic. `said` is where
// the context's diagnostics are collected.
void compile_imported(mlir::ModuleOp module, const std::string& said);

}  // namespace heddle::fuzz
