// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a region stores, and the contraction that it is built around. Read by every target's emitters; knows no loop.
#pragma once

#include "compiler/targets/element_evaluator.h"

namespace heddle::targets {

// A stored value, and the results that get it, in the same row-major order.
struct Output {
  mlir::Value value;  // without trailing reshapes
  unsigned result;
};

// Outputs of equal extents that have values or operands in common, and so are computed together. An operand of one element that no result overwrites
// does not count. Groups that differ only in their bindings, as for many small parameters, are repetitions of the first one.
struct OutputGroup {
  std::vector<Output> outputs;
  llvm::SmallVector<unsigned> bindings;                       // of the kernel, in some order
  std::vector<llvm::SmallVector<unsigned>> repetitions = {};  // the bindings in the same order
};
std::vector<OutputGroup> output_groups(tx::DispatchOp region);

// Emits `body` once, for a workgroup of the group or of a repetition, with the bindings of that one in place of the group's. The group and each
// repetition have `workgroups` workgroups; `block` is the place among all of them, and `body` gets the place among those of one.
mlir::LogicalResult emit_repetitions(KernelBuilder& kernel, const OutputGroup& group, mlir::AffineExpr workgroups, mlir::Value block,
                                     const std::function<mlir::LogicalResult(mlir::Value)>& body);

// Stores all outputs at a point.
mlir::LogicalResult store_outputs(KernelBuilder& kernel, ElementEvaluator& evaluator, llvm::ArrayRef<Output> outputs, const Point& point);

// The one contraction that the outputs are computed from by element-wise ops only; null if there is none. Fails, with a diagnostic, if there is
// another one.
mlir::FailureOr<mlir::Operation*> find_root(llvm::ArrayRef<Output> outputs);

}  // namespace heddle::targets
