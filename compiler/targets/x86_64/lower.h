// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a module of kernels to object code for one level. Called by the target's assemble(); knows no tx op.
#pragma once

#include <string>
#include <vector>

#include "compiler/targets/x86_64/level.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets::x86_64 {

// Relocatable objects of all kernels; consumes the module. Kernels are spread over objects by the module alone, never by the
// machine, and the objects are made by several threads. A private function that several objects need is in each of them, hidden
// and mergeable. Errors are diagnostics on the module.
mlir::FailureOr<std::vector<std::vector<char>>> lower_to_objects(mlir::ModuleOp kernels, const Level& level);

// The assembly of all kernels as text, for tests and for people.
mlir::FailureOr<std::string> lower_to_assembly(mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
