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

// The yielded values, grouped by equal extents.
std::vector<std::vector<Output>> output_groups(tx::DispatchOp region);

// Stores all outputs at a point.
mlir::LogicalResult store_outputs(KernelBuilder& kernel, ElementEvaluator& evaluator, llvm::ArrayRef<Output> outputs, const Point& point);

// The one contraction that the outputs are computed from by element-wise ops only; null if there is none. Fails, with a diagnostic, if there is
// another one.
mlir::FailureOr<mlir::Operation*> find_root(llvm::ArrayRef<Output> outputs);

}  // namespace heddle::targets
