// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions that go through rows: reductions, softmax, normalizations, and the ops around them, in as few passes over each row as the stages need. A
// row is the input of one set of folds; between the passes its values stay in registers, in memory of their own or in the result, or are computed
// again. Knows no target: the target distributes rows over workgroups and decides which threads go through one.
#pragma once

#include "compiler/targets/stage_emitter.h"

namespace heddle::targets {

// One row, or rows that are neighbors along the last dimension of rows.
struct RowPoint {
  llvm::SmallVector<mlir::Value> index;  // in each dimension of rows
  int64_t lanes = 0;                     // neighbors; 0: one row
  mlir::Value mask;                      // rows that count; null: all
};

// Which threads go through a row, and in which steps.
struct RowTeam {
  // Several threads share a row: this one has every `size`-th piece, from piece `member` on. Null: there is one thread.
  mlir::Value member;
  int64_t size = 1;
  // A piece: lanes of neighbors in the row, or one element (0), as always if lanes are along rows.
  int64_t lanes = 0;
  // Whether the last piece of a row may have fewer lanes, by a mask; only with one thread. Otherwise, a row is a multiple of the lanes.
  bool masks = false;
  // How many pieces of a row of known length are kept in registers, at most.
  int64_t kept = 8;
  // Number of independent accumulators in longer rows: a power of two. The same for all rows of a kernel, or their sums would differ.
  int64_t at_once = 4;
  // Merges the accumulators of all members into one set, in every member.
  std::function<KernelBuilder::Values(KernelBuilder::Values, llvm::function_ref<KernelBuilder::Values(mlir::ValueRange, mlir::ValueRange)>)>
      combine;
  // i1: whether the row exists; if not, it can be read, but nothing is stored. Null: it exists.
  mlir::Value exists;
  // For stages between two contractions, instead of `scratch`: memory of one row, in f32. It has the results of the first contraction, and in the end
  // the values that the second one reads.
  mlir::Value between;
  // This thread's own memory for so many elements, as a base for load() and store(); null if there is too little.
  std::function<mlir::Value(mlir::Type element, int64_t count)> scratch;
};

class RowsKernel {
 public:
  // Fails, with a diagnostic, for regions without rows.
  static mlir::FailureOr<RowsKernel> read(tx::DispatchOp region);
  // For the stages between two contractions, the first and the last stage of a region, if the second reads only one value of theirs. Fails without a
  // diagnostic.
  static mlir::FailureOr<RowsKernel> read_between(tx::DispatchOp region, const stage::StagedRegion& staged);

  // The index of each parallel dimension of a stage among the dimensions of rows followed by those of the row; none (~0u) for an extent of 1.
  llvm::ArrayRef<unsigned> dimensions_of(mlir::Operation* stage) const;
  // Extents of the dimensions of rows; at least one.
  llvm::ArrayRef<mlir::AffineExpr> rows() const { return row_extents_; }
  // Elements of a row.
  mlir::AffineExpr row_size() const;
  // Whether neighbors in memory are in neighboring rows instead of in one row.
  bool lanes_along_rows() const { return lanes_along_rows_; }
  // Elements of the row's last dimensions that are walked as one; its other dimensions are loops.
  mlir::AffineExpr run() const;
  // Number of element-wise ops and reads per element of a row.
  double work() const;
  unsigned passes() const { return passes_; }
  // Of all folds.
  int64_t accumulators() const;

  // Emits code that computes and stores these rows, which differ only in the index of the last dimension.
  void emit(KernelBuilder& kernel, llvm::ArrayRef<RowPoint> points, const RowTeam& team) const;

 private:
  friend class RowsReader;
  friend class RowsEmitter;

  enum class Kind { fold, per_row, per_element };
  struct Stage {
    mlir::Operation* op;
    Kind kind;
    // For each dimension of its domain, its index among the dimensions of rows followed by those of the row.
    llvm::SmallVector<unsigned> dims;
    unsigned pass = 0;                         // in which it runs; per row: after which
    llvm::SmallVector<unsigned> results = {};  // of the region: those that it computes, in order
    bool is_given = false;                     // a contraction before the stages, per element
    // For a per-element stage that is read in a later pass: the result in whose memory it is kept until then; or -1.
    int64_t kept_in_result = -1;
    bool is_read_later = false;
  };

  stage::StagedRegion staged_;                                       // none if the stages belong to another region
  llvm::SmallVector<mlir::AffineExpr> row_extents_, inner_extents_;  // at least one each, even if the stages have no such dimension
  unsigned flattened_ = 1;                                           // how many of inner_extents_ are walked as one
  bool lanes_along_rows_ = false;
  std::vector<Stage> stages_;
  unsigned passes_ = 0;
};

}  // namespace heddle::targets
