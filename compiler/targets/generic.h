// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The last entry of every target's strategies: computes any stage, with one thread or vector of lanes for each index of its parallel dimensions. Slow
// where a special strategy would be fast, but correct for every type, rank and shape. Knows no target: the target distributes indices over
// workgroups, threads and lanes.
#pragma once

#include "compiler/stage/stage.h"
#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

// How a line of a scatter or a sort is divided.
struct LineSplit {
  int64_t parts = 1;         // of a scatter's line
  bool in_place = false;     // the scatter's first elements are there already
  bool for_threads = false;  // parts are interleaved, and elements find their own places
};

class GenericKernel {
 public:
  // The workers among which indices are divided.
  struct Workers {
    int64_t enough;    // indices that keep all workers busy
    bool are_threads;  // neighbors run in parallel, and indices cost little
  };

  // Forms the stages of a region of tx ops. Fails, with a diagnostic, if it has none. The workers decide how a line of a scatter or of a sort is
  // divided.
  static mlir::FailureOr<GenericKernel> read(tx::DispatchOp region, const Workers& workers);

  // The parallel dimensions; at least one. Lanes are neighbors in the last one.
  llvm::ArrayRef<mlir::AffineExpr> extents() const { return extents_; }
  // How many neighbors can be computed at a time, a power of two, if the first one's index is a multiple of it: each read is then the same for all of
  // them, or reads neighbors as well. 1: lanes are not possible, or a result needs several stages.
  int64_t lanes() const { return lanes_; }
  // Whether the rows of the region's result are those of the parallel dimensions, so that they may be stored apart.
  bool stores_rows() const { return stores_rows_; }
  // Whether the result may be in the memory of an operand of which each element needs only the one at its own place.
  bool works_in_place() const;
  // Iterations of the innermost loop for each index, with 64 for each symbolic extent; comparisons of a sort count as several.
  double iterations() const;

  // Emits code that computes and stores one index (lanes 0), or `lanes` neighbors, of which those in the mask count (null: all).
  void emit(KernelBuilder& kernel, llvm::ArrayRef<mlir::Value> outer, mlir::Value inner, int64_t lanes, mlir::Value mask = {}) const;

 private:
  stage::StagedRegion staged_;
  mlir::Operation* op_ = nullptr;  // the stage that makes the results
  llvm::SmallVector<mlir::AffineExpr> extents_;
  int64_t lanes_ = 1;
  bool stores_rows_ = false;
  LineSplit split_;
};

}  // namespace heddle::targets
