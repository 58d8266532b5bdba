// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A matrix product or a convolution as its stage describes it, in the form that tiles need: rows, columns, a batch and a depth, each of some of the
// stage's dimensions.
#pragma once

#include "compiler/stage/stage.h"
#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

// Dimensions of the domain that are walked as one, the last of them fastest. Those of one index are in no walk.
struct Walk {
  struct Dimension {
    unsigned at;              // in the domain
    mlir::AffineExpr extent;  // indices that are walked
    int64_t by = 1;           // of the domain's dimension, for each index
  };
  llvm::SmallVector<Dimension> dimensions;

  mlir::AffineExpr count(mlir::MLIRContext* context) const;
  llvm::SmallVector<mlir::AffineExpr> extents(mlir::MLIRContext* context) const;  // at least one
};

// result[batch, row, column] = sum over the depth of lhs[batch, row, depth] * rhs[batch, depth, column]. The factors are whatever the stage's body
// computes from its reads, so weights may be converted, operands transposed, and images padded.
class Contraction {
 public:
  // Fails for a region of another kind, or with a diagnostic that has the reason.
  static mlir::FailureOr<Contraction> read(tx::DispatchOp region);

  mlir::MLIRContext* context() const { return stage_.getContext(); }
  stage::ContractOp stage() const { return stage_; }
  stage::DomainAttr domain() const { return stage::domain_of(stage_.getOperation()); }

  enum Side : unsigned { lhs, rhs };
  Walk batch, rows, columns, depth;
  const Walk& outer(Side side) const { return side == lhs ? rows : columns; }

  // The type in which factors are kept; their products are exact in the type of the sums, or rounded as in it.
  mlir::Type element;
  mlir::Type sum;
  // Whether the bytes that are kept of a side are numbers from 0 to 255. Only for sums of 32 bits, and then `element` is i8.
  bool is_unsigned[2] = {false, false};
  int64_t element_bytes() const { return element.getIntOrFloatBitWidth() / 8; }
  int64_t sum_bytes() const { return sum.getIntOrFloatBitWidth() / 8; }

  // The reads of the stage that a factor is computed from.
  llvm::ArrayRef<bool> reads_of(Side side) const { return reads_[side]; }
  // How many neighbors of one side can be read at a time, along the innermost dimension of the depth or of the rows or columns: a power of two, if the
  // first one's index is a multiple of it.
  int64_t neighbors(Side side, const Walk& walk, int64_t most) const;

  // The neighbors in memory of a result: rows, columns, or neither of them.
  const Walk* innermost() const;
  // Emits the index in the parallel dimensions of a result: of the batch in the dimensions of its walk, of rows and columns each as one number.
  llvm::SmallVector<mlir::Value> parallel_index(KernelBuilder& kernel, mlir::ValueRange in_batch, mlir::Value row,
                                                mlir::Value column) const;
  // Emits the place in memory of a result.
  mlir::Value place_of(KernelBuilder& kernel, llvm::ArrayRef<mlir::Value> parallel) const;

  // Whether rows of the only result may be stored apart.
  bool stores_rows() const { return stores_rows_; }

 private:
  stage::StagedRegion staged_;
  mutable stage::ContractOp stage_;  // its accessors are not const
  llvm::SmallVector<bool> reads_[2];
  bool stores_rows_ = false;
};

}  // namespace heddle::targets
