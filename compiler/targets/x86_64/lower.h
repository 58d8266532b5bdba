// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From kernels to object code for one level. Called by the target; knows no tx op.
#pragma once

#include <string>
#include <vector>

#include "compiler/targets/x86_64/level.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets::x86_64 {

// A relocatable object of a unit of code (targets/code_units.h), which is consumed. Errors are diagnostics on the module.
mlir::FailureOr<std::vector<char>> lower_to_object(mlir::ModuleOp unit, const Level& level);

// The assembly of all kernels as text, for tests and developers.
mlir::FailureOr<std::string> lower_to_assembly(mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
