// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The element-wise tail of a contraction: what is done to each element of the product before it is stored. Read from the
// region by contraction_shape, written into microkernels; knows nothing of tiles or loops.
#pragma once

#include <string>

#include "compiler/targets/x86_64/kernel_builder.h"

namespace heddle::targets::x86_64 {

// One operand of the tail besides the product itself.
struct EpilogueOperand {
  // An element for each of the result, for each column, for each row, or one for all.
  enum Kind { full, column, row, scalar };
  Kind kind;
  unsigned binding;   // operand of the region
  mlir::Value value;  // what the tail's ops name it: a block argument, or the result of a tx.broadcast
};

class Epilogue {
 public:
  // Reads everything between the root's result and the yield. Fails, with a diagnostic, for what it cannot do on a tile.
  static mlir::FailureOr<Epilogue> read(tx::DispatchOp region, mlir::Operation* root);

  bool empty() const { return ops_.empty(); }
  // Too long to be written for each vector of a tile.
  bool is_long() const { return is_long_; }
  llvm::ArrayRef<EpilogueOperand> operands() const { return operands_; }
  // Two tails with one key emit the same code.
  const std::string& key() const { return key_; }

  // The result for vectors of the product and of each operand.
  mlir::Value emit(KernelBuilder& kernel, mlir::Value product, mlir::ValueRange operands) const;
  // The same for one vector of the product at this element of the result and in this column; reads the operands there.
  mlir::Value emit_at(KernelBuilder& kernel, mlir::Value product, mlir::Value element, mlir::Value column, mlir::Value mask) const;
  // Whether a broadcast that an op of the tail reads is of one of these kinds.
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
