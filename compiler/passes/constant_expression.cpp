// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Answers by walking up the operands; graphs of weights are shallow, so nothing is cached.
#include "compiler/passes/constant_expression.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace heddle::passes {

bool is_constant_expression(Value value) {
  SmallVector<Value> open{value};
  llvm::SmallPtrSet<Operation*, 16> seen;
  while (!open.empty()) {
    Operation* op = open.pop_back_val().getDefiningOp();
    if (!op || op->getNumRegions() != 0 || llvm::isa<tx::CustomOp>(op)) return false;
    if (!llvm::isa_and_nonnull<tx::TxDialect>(op->getDialect())) return false;
    if (!seen.insert(op).second) continue;
    llvm::append_range(open, op->getOperands());
  }
  return true;
}

Value channel_vector(Value value) {
  auto broadcast = value.getDefiningOp<tx::BroadcastOp>();
  if (!broadcast || !is_constant_expression(broadcast.getInput())) return {};
  auto from = llvm::cast<RankedTensorType>(broadcast.getInput().getType());
  auto to = llvm::cast<RankedTensorType>(broadcast.getType());
  if (from.getRank() != 1 || broadcast.getDimensions()[0] != to.getRank() - 1) return {};
  if (from.getDimSize(0) != to.getDimSize(to.getRank() - 1)) return {};
  return broadcast.getInput();
}

bool widens_weights(Value value) {
  Type element = tx::tensor(value).getElementType();
  if (!llvm::isa<FloatType>(element)) return false;
  llvm::SetVector<Operation*> ops;
  ops.insert(value.getDefiningOp());
  for (size_t i = 0; i < ops.size(); ++i) {
    bool keeps_elements = tx::is_elementwise(ops[i]) || llvm::isa<tx::BroadcastOp, tx::ReshapeOp>(ops[i]) ||
                          llvm::isa<tx::TransposeOp, tx::SliceOp, tx::ConcatOp, tx::PadOp, tx::PackOp>(ops[i]);
    if (keeps_elements) {
      for (Value operand : ops[i]->getOperands()) ops.insert(operand.getDefiningOp());
    }
    if (!llvm::isa<tx::ConstantOp, tx::ParameterOp>(ops[i])) continue;
    RankedTensorType leaf = tx::tensor(ops[i]->getResult(0));
    bool is_quantized = llvm::isa<IntegerType>(leaf.getElementType()) && leaf.getElementTypeBitWidth() >= 8 && leaf.getRank() >= 2;
    if (is_quantized && leaf.getElementTypeBitWidth() < element.getIntOrFloatBitWidth()) return true;
  }
  return false;
}

}  // namespace heddle::passes
