// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Answers by walking up the operands; graphs of weights are shallow, so nothing is cached.
#include "compiler/passes/constant_expression.h"

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

}  // namespace heddle::passes
