// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cutting one function into regions, for heddle-form-dispatches, and for who asks what a node alone would become.
#pragma once

#include "compiler/passes/passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::passes {

// Every op of the function that computes is in a tx.dispatch of at most so many bindings afterwards. Refusals to fuse are added to the log.
// devices: null for regions that need nobody's own kernel.
mlir::LogicalResult form_regions(mlir::func::FuncOp function, unsigned most_bindings, mlir::SmallVector<mlir::Attribute>& log,
                                 const Devices* devices = nullptr);

}  // namespace heddle::passes
