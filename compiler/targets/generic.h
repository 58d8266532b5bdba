// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last entry of every target's strategies: any stage, one thread or vector of lanes for each index of its parallel dimensions. Slow where a
// strategy of its own would be fast, and right for every type, rank and shape. Knows no target: how indices are spread over
// workgroups, threads and lanes is the target's.
#pragma once

#include "compiler/stage/stage.h"
#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

class GenericKernel {
 public:
  // Forms the stages of a region of tx ops. Fails, with a diagnostic, where it has none. Where an index is as good as another one, as for the parts of a line
  // of a scatter, there are about `enough` of them.
  static mlir::FailureOr<GenericKernel> read(tx::DispatchOp region, int64_t enough);

  // The parallel dimensions; at least one. Lanes are neighbors in the last.
  llvm::ArrayRef<mlir::AffineExpr> extents() const { return extents_; }
  // How many neighbors can be computed at a time, a power of two, if the first one's index is a multiple of it: all reads are then the same for them,
  // or neighbors as well. 1: none can, or several stages are needed for a result.
  int64_t lanes() const { return lanes_; }
  // Iterations of the innermost loop for each index, where extents are known; 64 for each that is not.
  double iterations() const;

  // Emits what computes and stores one index (lanes 0), or `lanes` neighbors of which those in the mask count (null: all).
  void emit(KernelBuilder& kernel, llvm::ArrayRef<mlir::Value> outer, mlir::Value inner, int64_t lanes, mlir::Value mask = {}) const;

 private:
  stage::StagedRegion staged_;
  mlir::Operation* op_ = nullptr;  // the stage that makes the results
  llvm::SmallVector<mlir::AffineExpr> extents_;
  int64_t lanes_ = 1, parts_ = 1;
};

}  // namespace heddle::targets
