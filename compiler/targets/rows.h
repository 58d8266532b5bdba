// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions that go through rows: reductions, softmax, normalizations, and what is computed around them, in as few passes over each row as the
// stages need. A row is what one set of folds takes in; its values stay in registers, in memory of its own or in the result between the passes, or are
// computed again. Knows no target: how rows are spread over workgroups, and who goes through one, is the target's.
#pragma once

#include "compiler/targets/stage_emitter.h"

namespace heddle::targets {

// One row, or rows that are neighbors along the last dimension of rows.
struct RowPoint {
  llvm::SmallVector<mlir::Value> index;  // of each dimension of rows
  int64_t lanes = 0;                     // neighbors; 0: one row
  mlir::Value mask;                      // rows that count; null: all
};

// Who goes through a row, and in which steps.
struct RowTeam {
  // Several threads share a row: this one has every `size`-th piece, from piece `member` on. Null: there is one thread.
  mlir::Value member;
  int64_t size = 1;
  // A piece: lanes of neighbors in the row, or one element (0), which it is if lanes are along rows.
  int64_t lanes = 0;
  // Whether the last piece of a row may have fewer lanes, by a mask; only with one thread. Else a row is a multiple of the lanes.
  bool masks = false;
  // Pieces of a row of known length that are kept in registers, at most.
  int64_t kept = 8;
  // Accumulators that do not wait for each other, in longer rows: a power of two. The same for all rows of a kernel, or their sums differ.
  int64_t at_once = 4;
  // Makes one set of accumulators of all members', in every member.
  std::function<KernelBuilder::Values(KernelBuilder::Values, llvm::function_ref<KernelBuilder::Values(mlir::ValueRange, mlir::ValueRange)>)>
      combine;
  // i1: whether the row exists; if not, it is one that can be read, and nothing is stored. Null: it does.
  mlir::Value exists;
  // For stages between two contractions, instead of `scratch`: memory of one row, in f32. It holds what the first contraction made, and in the end
  // what the second one reads.
  mlir::Value between;
  // Memory of this thread's own for so many elements, as a base for load() and store(); null if there is too little.
  std::function<mlir::Value(mlir::Type element, int64_t count)> scratch;
};

class RowsKernel {
 public:
  // Fails, with a diagnostic, for regions without rows.
  static mlir::FailureOr<RowsKernel> read(tx::DispatchOp region);
  // Of the stages between two contractions, the first and the last stage of a region, if the second reads but one value of theirs. Fails without a diagnostic.
  static mlir::FailureOr<RowsKernel> read_between(tx::DispatchOp region, const stage::StagedRegion& staged);

  // Which one of the dimensions of rows, then of the row, each parallel dimension of a stage is; none (~0u) for an extent of 1.
  llvm::ArrayRef<unsigned> dimensions_of(mlir::Operation* stage) const;
  // Extents of the dimensions of rows; at least one.
  llvm::ArrayRef<mlir::AffineExpr> rows() const { return row_extents_; }
  // Elements of a row.
  mlir::AffineExpr row_size() const;
  // Whether neighbors in memory are in neighboring rows, not in one row.
  bool lanes_along_rows() const { return lanes_along_rows_; }
  // Elements of the row's last dimensions that are gone through as one; its other dimensions are loops.
  mlir::AffineExpr run() const;
  // Element-wise ops and reads for each element of a row.
  double work() const;
  unsigned passes() const { return passes_; }
  // Of all folds.
  int64_t accumulators() const;

  // Emits what computes and stores these rows, which differ in the index of the last dimension alone.
  void emit(KernelBuilder& kernel, llvm::ArrayRef<RowPoint> points, const RowTeam& team) const;

 private:
  friend class RowsReader;
  friend class RowsEmitter;

  enum class Kind { fold, per_row, per_element };
  struct Stage {
    mlir::Operation* op;
    Kind kind;
    // For each dimension of its domain, which one of the rows', then the row's, it is.
    llvm::SmallVector<unsigned> dims;
    unsigned pass = 0;      // in which it runs; of one per row, behind which
    bool is_last = false;   // makes the region's results
    bool is_given = false;  // a contraction in front of the stages, per element
    // Per element, and read in a later pass: the result in whose memory it is kept until then; or -1.
    int64_t kept_in_result = -1;
    bool is_read_later = false;
  };

  stage::StagedRegion staged_;                                       // none if the stages are another one's
  llvm::SmallVector<mlir::AffineExpr> row_extents_, inner_extents_;  // one at least each; the stages may have no such dimension
  unsigned flattened_ = 1;                                           // of inner_extents_, that are gone through as one
  bool lanes_along_rows_ = false;
  std::vector<Stage> stages_;
  unsigned passes_ = 0;
};

}  // namespace heddle::targets
