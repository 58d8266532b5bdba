// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An operand of a contraction as its kernel reads it: where it lies, without a copy. Read by the contractions of x86-64 and CUDA; emits nothing.
#pragma once

#include "compiler/ir/tx.h"

namespace heddle::targets {

// An input of a region, or a slice of one, without strides, whose dimensions may then be merged. All numbers are elements.
struct OperandView {
  mlir::BlockArgument binding;
  llvm::SmallVector<mlir::AffineExpr> extents;  // of the operand
  llvm::SmallVector<mlir::AffineExpr> steps;    // in the binding, from one index of a dimension to the next; 1 for the last
  mlir::AffineExpr start;                       // in the binding, of the operand's first element
  bool is_slice = false;

  // Nothing if the operand is computed in another way.
  static std::optional<OperandView> of(mlir::Value operand);

  // The distance from one index of dimensions [first, last), counted as one, to the next; nothing if it is not always the same.
  std::optional<mlir::AffineExpr> joint_step(size_t first, size_t last) const;
  std::optional<int64_t> static_step(size_t first, size_t last) const;
};

}  // namespace heddle::targets
