// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-match-donations: a donated argument whose memory no result takes yet gets a result of its type, if that result can be computed in its place:
// nothing reads the argument after it, and what is computed last reads the argument element by element.
//
//   func.func @main(%w: tensor<4xf32> {tx.donated}, %g: tensor<4xf32>) -> tensor<4xf32> { %0 = tx.sub %w, %g  return %0 }
// The result takes the memory of %w: {tx.alias = 0, tx.donated}.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

bool is_step(Operation* op, RankedTensorType type) {
  return op && tx::is_elementwise(op) && op->getNumResults() == 1 && tx::extents(tx::tensor(op->getResult(0))) == tx::extents(type);
}

// Whether the value can be computed in the place of the argument.
bool fits(Value value, BlockArgument argument) {
  const RankedTensorType type = tx::tensor(argument);
  if (value.getType() != type || value == argument || !value.getDefiningOp()) return false;
  // The element-wise ops at the end, of which one kernel is likely to be made, and what they read.
  llvm::SetVector<Operation*> last;
  llvm::DenseSet<Operation*> read;
  if (is_step(value.getDefiningOp(), type)) last.insert(value.getDefiningOp());
  if (last.empty()) read.insert(value.getDefiningOp());
  for (size_t i = 0; i < last.size(); ++i) {
    for (Value operand : last[i]->getOperands()) {
      Operation* maker = operand.getDefiningOp();
      if (is_step(maker, type)) {
        last.insert(maker);
      } else if (maker) {
        read.insert(maker);
      }
    }
  }
  // All ops that the value depends on.
  llvm::SetVector<Operation*> before;
  before.insert(value.getDefiningOp());
  for (size_t i = 0; i < before.size(); ++i) {
    for (Value operand : before[i]->getOperands()) {
      if (Operation* maker = operand.getDefiningOp()) before.insert(maker);
    }
  }
  // An op that the last ones read may be part of their kernel, which then reads the argument at other places.
  return llvm::all_of(argument.getUsers(),
                      [&](Operation* user) { return before.contains(user) && (last.contains(user) || !read.contains(user)); });
}

struct MatchDonations : PassWrapper<MatchDonations, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MatchDonations)
  StringRef getArgument() const final { return "heddle-match-donations"; }
  StringRef getDescription() const final { return "results take the memory of donated arguments"; }
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    Operation* end = function.getBody().front().getTerminator();
    auto checks = function->getAttrOfType<ArrayAttr>(tx::checks_attr);
    const size_t own = end->getNumOperands() - (checks ? checks.size() : 0);
    llvm::DenseSet<unsigned> taken;
    for (BlockArgument argument : function.getArguments()) {
      if (auto alias = tx::alias_of(argument)) taken.insert(*alias);
    }
    for (BlockArgument argument : function.getArguments()) {
      if (!tx::is_donated(argument) || tx::alias_of(argument)) continue;
      StringRef slot = tx::affinity_of(function.getArgAttrDict(argument.getArgNumber()));
      for (unsigned i = 0; i < own; ++i) {
        if (taken.contains(i) || tx::affinity_of(function.getResultAttrDict(i)) != slot || !fits(end->getOperand(i), argument)) continue;
        taken.insert(i);
        function.setArgAttr(argument.getArgNumber(), tx::alias_attr, Builder(&getContext()).getI64IntegerAttr(i));
        break;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Pass> match_donations() {
  return std::make_unique<MatchDonations>();
}

}  // namespace heddle::passes
