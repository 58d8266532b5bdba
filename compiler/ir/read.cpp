// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/ir/read.h"

#include "compiler/ir/control.h"

#define GET_OP_CLASSES
#include "read_op.cpp.inc"

using namespace mlir;

namespace heddle::tx {

LogicalResult ReadOp::verify() {
  if (auto slot = getSlot(); slot && !is_slot_name(*slot)) return emitOpError("names the slot '") << *slot << "'";
  const RankedTensorType type = tensor(getValue());
  if (!type.getElementType().isSignlessInteger(64) || type.getRank() != 1 || !type.hasStaticShape())
    return emitOpError("reads ") << type << ", which is no vector of i64 with a static extent";
  if (type.getShape()[0] != static_cast<int64_t>(getSymbols().size()))
    return emitOpError("has ") << getSymbols().size() << " symbols for " << type.getShape()[0] << " elements";
  return success();
}

SmallVector<ReadSymbol> read_symbols(Block& block) {
  SmallVector<ReadSymbol> found;
  for (Operation& op : block) {
    if (auto read = llvm::dyn_cast<ReadOp>(op)) {
      for (int64_t symbol : read.getSymbols()) {
        if (symbol >= 0) found.push_back({static_cast<unsigned>(symbol), &op});
      }
    }
    if (auto loop = llvm::dyn_cast<LoopOp>(op)) {
      for (const LoopOp::Varying& one : loop.varying()) found.push_back({one.after, &op});
    }
  }
  return found;
}

bool mentions(Operation* op, unsigned symbol) {
  llvm::SmallVector<unsigned> meant = {symbol};
  Operation* function = op;
  while (function && !function->hasAttr(symbols_attr)) function = function->getParentOp();
  auto defined = function ? function->getAttrOfType<ArrayAttr>(defined_symbols_attr) : ArrayAttr();
  const unsigned given = defined ? given_symbol_count(function) : 0;
  auto has = [&](AffineExpr expression) {
    return llvm::any_of(meant, [&](unsigned position) { return expression.isFunctionOfSymbol(position); });
  };
  // Each is defined by symbols before it.
  for (auto [i, each] : llvm::enumerate(defined ? defined.getValue() : ArrayRef<Attribute>())) {
    auto of = llvm::cast<DictionaryAttr>(each).getAs<AffineMapAttr>("of");
    if (of && llvm::any_of(of.getValue().getResults(), has)) meant.push_back(given + static_cast<unsigned>(i));
  }
  auto found = op->walk([&](Operation* inner) {
    for (Value result : inner->getResults()) {
      auto type = llvm::dyn_cast<RankedTensorType>(result.getType());
      if (type && llvm::any_of(extents(type), has)) return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return found.wasInterrupted();
}

}  // namespace heddle::tx
