// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Branches and loops of the tx dialect (branch.td, loop.td). Apart from tx.h, since few files of the compiler need to know them.
#pragma once

#include "compiler/ir/tx.h"
#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "branch_op.h.inc"
#define GET_OP_CLASSES
#include "loop_op.h.inc"

namespace heddle::tx {

// Whether programs have commands of their own for the op, in each call: an operator of a plugin, a branch, a loop or a read. It is in no region, and is not
// computed at load, whatever its operands are.
bool stays_apart(mlir::Operation* op);

}  // namespace heddle::tx
