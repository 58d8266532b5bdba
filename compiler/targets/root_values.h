// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results of pooling, reduction, local response normalization and softmax at points of them, where one thread goes through the
// whole window of each. Used by every target's emitters; knows no cut of the work. All fail after a diagnostic.
#pragma once

#include "compiler/targets/element_evaluator.h"

namespace heddle::targets {

// From..to, i64.
struct Range {
  mlir::Value from, to;
};

// Loops over the ranges, the last one innermost. `index` must be empty, and is when body is not running.
KernelBuilder::Values nested_loops(KernelBuilder& kernel, llvm::ArrayRef<Range> ranges, llvm::SmallVector<mlir::Value>& index,
                                   mlir::ValueRange carried,
                                   const std::function<KernelBuilder::Values(llvm::ArrayRef<mlir::Value>, mlir::ValueRange)>& body);

// One value a point. The points differ in their last coordinate only.
mlir::FailureOr<KernelBuilder::Values> pool_values(KernelBuilder& kernel, ElementEvaluator& evaluator, tx::PoolOp pool,
                                                   llvm::ArrayRef<Point> points);
mlir::FailureOr<KernelBuilder::Values> reduce_values(KernelBuilder& kernel, ElementEvaluator& evaluator, tx::ReduceOp reduce,
                                                     llvm::ArrayRef<Point> points);

// inside: the point's whole window is known to lie within the row.
mlir::FailureOr<mlir::Value> lrn_value(KernelBuilder& kernel, ElementEvaluator& evaluator, tx::LrnOp lrn, const Point& point, bool inside);

// Every result along the axis, which is not the dimension of the point's lanes; the point's own index there is ignored.
mlir::LogicalResult softmax_values(KernelBuilder& kernel, ElementEvaluator& evaluator, tx::SoftmaxOp softmax, Point point,
                                   const std::function<mlir::LogicalResult(mlir::Value, const Point&)>& store);

}  // namespace heddle::targets
