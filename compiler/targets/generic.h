// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last entry of every target's strategies: any stage, one thread or vector of lanes for each index of its parallel dimensions. Slow where a
// strategy of its own would be fast, and right for every type, rank and shape. Knows no target: how indices are spread over
// workgroups, threads and lanes is the target's.
#pragma once

#include "compiler/stage/stage.h"
#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

// How a line of a scatter or a sort is made.
struct LineSplit {
  int64_t parts = 1;         // of a scatter's line
  bool for_threads = false;  // parts are interleaved, and elements find their own places
};

class GenericKernel {
 public:
  // Who takes indices.
  struct Workers {
    int64_t enough;    // of indices, to keep all busy
    bool are_threads;  // neighbors run side by side, and indices cost little
  };

  // Forms the stages of a region of tx ops. Fails, with a diagnostic, where it has none. How a line of a scatter or of a sort is cut is for these workers.
  static mlir::FailureOr<GenericKernel> read(tx::DispatchOp region, const Workers& workers);

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
  int64_t lanes_ = 1;
  LineSplit split_;
};

}  // namespace heddle::targets
