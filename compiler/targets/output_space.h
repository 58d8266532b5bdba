// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The index space in which element-wise outputs are walked, whatever the target's threads are. A concat is walked input by input,
// and dimensions that may be walked as one are.
#pragma once

#include "compiler/targets/region_outputs.h"

namespace heddle::targets {

struct OutputSpace {
  llvm::SmallVector<mlir::AffineExpr> extents;  // at least one
  unsigned flattened = 1;                       // of these, the last that are walked as one
  tx::ConcatOp concat;                          // walked input by input; null: there is none
  unsigned input = 0, axis = 0;
  mlir::AffineExpr start;  // of the input along the axis
  bool is_scalar = false;

  // Tells the evaluator which input of the concat all points are in.
  void prepare(ElementEvaluator& evaluator) const {
    if (concat) evaluator.choose(concat, input);
  }
  // The point at these indices of the dimensions that are walked alone, and this one of the others; its lanes are neighbors.
  Point point(KernelBuilder& kernel, mlir::ValueRange outer, mlir::Value inner, int64_t lanes, mlir::Value mask = {}) const;
};

// One space, or one for each input of the concat behind the outputs.
std::vector<OutputSpace> output_spaces(llvm::ArrayRef<Output> outputs);

}  // namespace heddle::targets
