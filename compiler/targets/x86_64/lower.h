// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a module of kernels to object code for one level. Called by the target's assemble(); knows no tx op.
#pragma once

#include <string>
#include <vector>

#include "compiler/targets/x86_64/level.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets::x86_64 {

// One relocatable object; consumes the module. Private functions become hidden and mergeable, so that several objects may
// hold the same one. Errors are diagnostics on the module.
mlir::FailureOr<std::vector<char>> lower_to_object(mlir::ModuleOp kernels, const Level& level);

// The last LLVM IR and assembly of the kernels as text, for tests and for people.
mlir::FailureOr<std::string> lower_to_assembly(mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
