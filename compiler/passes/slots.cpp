// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One walk in program order.
#include "compiler/passes/slots.h"

using namespace mlir;

namespace heddle::passes {

Slots::Slots(func::FuncOp function) : function_(function) {
  for (Operation& op : function.getBody().front()) {
    if (auto transfer = llvm::dyn_cast<tx::TransferOp>(op)) {
      of_op_[&op] = transfer.getToAttr();
    } else if (auto slot = op.getAttrOfType<StringAttr>(tx::slot_attr)) {
      of_op_[&op] = slot;
    } else if (!op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op.getOperands()) {
        StringAttr slot = of(operand), known = of_op_.lookup(&op);
        if (!known && slot) of_op_[&op] = slot;
        if (known && slot && known != slot && !torn_) torn_ = &op;
      }
    }
  }
}

StringAttr Slots::of(Value value) const {
  if (Operation* op = value.getDefiningOp()) return of(op);
  auto argument = llvm::cast<BlockArgument>(value);
  func::FuncOp function = function_;  // its methods are not const
  return StringAttr::get(value.getContext(), tx::affinity_of(function.getArgAttrDict(argument.getArgNumber())));
}

StringAttr Slots::of_or_default(Operation* op) const {
  StringAttr slot = of(op);
  return slot ? slot : StringAttr::get(op->getContext(), tx::default_slot);
}

}  // namespace heddle::passes
