// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The index space in which element-wise outputs are walked, independently of the target's threads. A concat is walked input by input, and dimensions
// that may be walked as one are.
#pragma once

#include "compiler/targets/region_outputs.h"

namespace heddle::targets {

struct OutputSpace {
  llvm::SmallVector<mlir::AffineExpr> extents;  // at least one
  unsigned flattened = 1;                       // how many of the last are walked as one
  tx::ConcatOp concat;                          // walked input by input; null: none
  unsigned input = 0, axis = 0;
  mlir::AffineExpr start;  // of the input along the axis
  bool is_scalar = false;

  // Tells the evaluator which input of the concat contains all points.
  void prepare(ElementEvaluator& evaluator) const {
    if (concat) evaluator.choose(concat, input);
  }
  // The point at these indices of the separate dimensions, and at this one of the flattened ones; its lanes are neighbors.
  Point point(KernelBuilder& kernel, mlir::ValueRange outer, mlir::Value inner, int64_t lanes, mlir::Value mask = {}) const;
};

// One space, or one for each input of the concat that the outputs are computed from.
std::vector<OutputSpace> output_spaces(llvm::ArrayRef<Output> outputs);

}  // namespace heddle::targets
