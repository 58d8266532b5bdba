// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Walks up the operands. Graphs of weights are shallow, so most answers are not cached.
#include "compiler/passes/constant_expression.h"
#include "compiler/ir/control.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace heddle::passes {

bool is_constant_expression(Value value) {
  SmallVector<Value> open{value};
  llvm::SmallPtrSet<Operation*, 16> seen;
  while (!open.empty()) {
    Operation* op = open.pop_back_val().getDefiningOp();
    if (!op || op->getNumRegions() != 0 || tx::stays_apart(op)) return false;
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

bool WidenedWeights::contains(Value value) {
  Type element = tx::element_of(value);
  if (!llvm::isa<FloatType>(element)) return false;
  const unsigned stored = stored_bits(value.getDefiningOp());
  return stored > 0 && stored < element.getIntOrFloatBitWidth();
}

unsigned WidenedWeights::stored_bits(Operation* wanted) {
  auto leaf_bits = [](Operation* op) -> unsigned {
    if (!llvm::isa<tx::ConstantOp, tx::ParameterOp>(op)) return 0;
    auto integer = llvm::dyn_cast<IntegerType>(tx::element_of(op->getResult(0)));
    return integer && integer.getWidth() >= 8 && tx::tensor(op->getResult(0)).getRank() >= 2 ? integer.getWidth() : 0;
  };
  SmallVector<Operation*> open = {wanted};
  while (!open.empty()) {
    Operation* op = open.back();
    const size_t before = open.size();
    unsigned fewest = leaf_bits(op);
    bool keeps_elements = tx::is_elementwise(op) || op->hasTrait<tx::Movement>() || llvm::isa<tx::PackOp>(op);
    for (Value operand : keeps_elements ? ValueRange(op->getOperands()) : ValueRange()) {
      auto known = stored_bits_.find(operand.getDefiningOp());
      if (known == stored_bits_.end()) {
        open.push_back(operand.getDefiningOp());
      } else if (known->second > 0) {
        fewest = fewest == 0 ? known->second : std::min(fewest, known->second);
      }
    }
    if (open.size() > before) continue;  // the operands first
    stored_bits_[op] = fewest;
    open.pop_back();
  }
  return stored_bits_.lookup(wanted);
}

}  // namespace heddle::passes
