// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the ops of a function run, after heddle-place-ops. An op is where its operands are, so that passes in between may rewrite ops freely: only
// arguments, transfers and, once each slot has its own, constants name a slot themselves.
#pragma once

#include "compiler/ir/tx.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::passes {

class Slots {
 public:
  explicit Slots(mlir::func::FuncOp function);

  // The slot of an op, or of the op or argument that defines a value. Null if it depends only on constants: it is then on the slots that use it.
  mlir::StringAttr of(mlir::Operation* op) const { return of_op_.lookup(op); }
  mlir::StringAttr of(mlir::Value value) const;
  // The same, with the default slot for values that depend only on constants.
  mlir::StringAttr of_or_default(mlir::Operation* op) const;
  // An op whose operands are on several slots, or null.
  mlir::Operation* torn() const { return torn_; }

 private:
  mlir::func::FuncOp function_;
  llvm::DenseMap<mlir::Operation*, mlir::StringAttr> of_op_;
  mlir::Operation* torn_ = nullptr;
};

}  // namespace heddle::passes
