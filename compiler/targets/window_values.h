// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results of pooling and local response normalization at points of them, where one thread goes through the whole window of each. Used by every
// target's emitters; knows no cut of the work. All fail after a diagnostic.
#pragma once

#include "compiler/targets/element_evaluator.h"

namespace heddle::targets {

// One value a point. The points differ in their last coordinate only.
mlir::FailureOr<KernelBuilder::Values> pool_values(KernelBuilder& kernel, ElementEvaluator& evaluator, tx::PoolOp pool,
                                                   llvm::ArrayRef<Point> points);

// inside: the point's whole window is known to lie within the row.
mlir::FailureOr<mlir::Value> lrn_value(KernelBuilder& kernel, ElementEvaluator& evaluator, tx::LrnOp lrn, const Point& point, bool inside);

}  // namespace heddle::targets
