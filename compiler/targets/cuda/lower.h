// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels to PTX text. Called by the target.
#pragma once

#include <vector>

#include "compiler/targets/cuda/chip.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets::cuda {

// Consumes the kernels. Fails after a diagnostic.
mlir::FailureOr<std::vector<char>> lower_to_ptx(mlir::ModuleOp kernels, const Chip& chip);

}  // namespace heddle::targets::cuda
