// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels to PTX text. Called by the target.
#pragma once

#include <vector>

#include "compiler/targets/cuda/chip.h"
#include "compiler/targets/target.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets::cuda {

// PTX of a unit of code (targets/code_units.h), which is consumed. Fails after a diagnostic.
mlir::FailureOr<std::vector<char>> lower_to_ptx(mlir::ModuleOp unit, const Chip& chip);

// One PTX module of such units, one per kernel, with the kernels' names in it.
std::vector<char> join_ptx(llvm::ArrayRef<llvm::ArrayRef<char>> units, llvm::ArrayRef<LinkedKernel> kernels);

}  // namespace heddle::targets::cuda
