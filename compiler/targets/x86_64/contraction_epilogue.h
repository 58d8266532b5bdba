// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The element-wise epilogue of a contraction: the ops on each element of the product before it is stored. Read from the region by
// contraction_shape, emitted into microkernels; knows no tiles or loops.
#pragma once

#include <string>

#include "compiler/targets/x86_64/kernel_builder.h"

namespace heddle::targets::x86_64 {

// One operand of the epilogue other than the product.
struct EpilogueOperand {
  // One element per element of the result, per column, per row, or one for all.
  enum Kind { full, column, row, scalar };
  Kind kind;
  unsigned binding;   // operand of the region
  mlir::Value value;  // the value that the epilogue's ops read: a block argument, or the result of a tx.broadcast
};

class Epilogue {
 public:
  // Reads everything between the root's result and the yield. Fails, with a diagnostic, for ops that are not possible on a tile.
  static mlir::FailureOr<Epilogue> read(tx::DispatchOp region, mlir::Operation* root);

  bool empty() const { return ops_.empty(); }
  // Too long to be repeated for each vector of a tile.
  bool is_long() const { return is_long_; }
  // Whether an operand has an element per element of the result.
  bool reads_full() const;
  llvm::ArrayRef<EpilogueOperand> operands() const { return operands_; }
  // Two epilogues with one key emit the same code.
  const std::string& key() const { return key_; }

  // The result for vectors of the product and of each operand.
  mlir::Value emit(KernelBuilder& kernel, mlir::Value product, mlir::ValueRange operands) const;
  // The same for one vector of the product at this element of the result and in this column; reads the operands there.
  mlir::Value emit_at(KernelBuilder& kernel, mlir::Value product, mlir::Value element, mlir::Value column, mlir::Value mask) const;
  // Whether a broadcast that an op of the epilogue reads is of one of these kinds.
  static bool takes(tx::BroadcastOp broadcast);

 private:
  mlir::Value product_;
  mlir::Value result_;
  llvm::SmallVector<EpilogueOperand> operands_;
  llvm::SmallVector<mlir::Operation*> ops_;
  llvm::SmallVector<std::pair<mlir::Value, double>> constants_;
  std::string key_;
  bool is_long_ = false;
};

}  // namespace heddle::targets::x86_64
