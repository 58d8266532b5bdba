// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See sibling_regions.h.
#include "compiler/targets/sibling_regions.h"

#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::targets {

namespace {

void collect(Value value, llvm::SetVector<Operation*>& ops, llvm::SetVector<unsigned>& inputs) {
  if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
    inputs.insert(argument.getArgNumber());
    return;
  }
  if (!ops.insert(value.getDefiningOp())) return;
  for (Value operand : value.getDefiningOp()->getOperands()) collect(operand, ops, inputs);
}

SiblingRegion make_sibling(tx::DispatchOp whole, Value result, func::FuncOp function) {
  llvm::SetVector<Operation*> ops;
  llvm::SetVector<unsigned> inputs;
  collect(result, ops, inputs);
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  SmallVector<Value> operands;
  for (unsigned input : inputs) operands.push_back(function.getArgument(input));
  auto region = builder.create<tx::DispatchOp>(whole.getLoc(), result.getType(), operands, whole.getName(), whole.getSlotAttr());
  Block* block = builder.createBlock(&region.getBody());
  IRMapping inside;
  for (unsigned input : inputs) {
    Value argument = whole.getBody().getArgument(input);
    inside.map(argument, block->addArgument(argument.getType(), argument.getLoc()));
  }
  for (Operation& op : whole.getBody().front()) {
    if (ops.contains(&op)) builder.clone(op, inside);
  }
  builder.create<tx::YieldOp>(whole.getLoc(), inside.lookup(result));
  return {region, inputs.takeVector()};
}

}  // namespace

FailureOr<SiblingRegions> sibling_regions(tx::DispatchOp region) {
  ValueRange results = region.getBody().front().getTerminator()->getOperands();
  if (results.size() < 2 || region.getTied()) return failure();
  SiblingRegions siblings;
  siblings.module = ModuleOp::create(region.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(siblings.module->getBody());
  auto function = builder.create<func::FuncOp>(region.getLoc(), "siblings", builder.getFunctionType(region.getInputs().getTypes(), {}));
  if (auto known = region->getParentOfType<func::FuncOp>()) {
    if (auto symbols = known->getAttr(tx::symbols_attr)) function->setAttr(tx::symbols_attr, symbols);
  }
  function.addEntryBlock();
  for (Value result : results) siblings.all.push_back(make_sibling(region, result, function));
  return siblings;
}

}  // namespace heddle::targets
