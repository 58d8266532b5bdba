// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides one function into regions, for heddle-form-dispatches and for callers that ask what a node alone would become.
#pragma once

#include "compiler/passes/passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::passes {

// Afterwards, every computing op of the function is in a tx.dispatch of at most so many bindings. Refusals to fuse are added to the log.
// devices: null if no regions with special kernels are to be formed.
mlir::LogicalResult form_regions(mlir::func::FuncOp function, unsigned most_bindings, mlir::SmallVector<mlir::Attribute>& log,
                                 const Devices* devices = nullptr);

}  // namespace heddle::passes
