// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See index_expression.h.
#include "compiler/passes/index_expression.h"

using namespace mlir;

namespace heddle::passes {

namespace {

constexpr size_t most_ops = 16;

bool add_ops(Value value, llvm::SetVector<Operation*>& ops, size_t depth = 0) {
  Operation* op = value.getDefiningOp();
  if (!op || ops.size() > most_ops || depth > most_ops) return false;
  if (ops.contains(op)) return true;
  auto constant = llvm::dyn_cast<tx::ConstantOp>(op);
  bool is_leaf = llvm::isa<tx::IotaOp>(op) || (constant && llvm::isa<SplatElementsAttr>(constant.getValue()));
  bool is_cheap = tx::is_view(op) || (tx::is_elementwise(op) && !tx::is_costly(op));
  if (!is_leaf && !is_cheap) return false;
  if (!llvm::all_of(op->getOperands(), [&](Value operand) { return add_ops(operand, ops, depth + 1); })) return false;
  ops.insert(op);
  return ops.size() <= most_ops;
}

}  // namespace

llvm::SetVector<Operation*> index_expression(Value value) {
  llvm::SetVector<Operation*> ops;
  if (!add_ops(value, ops) || llvm::none_of(ops, [](Operation* op) { return llvm::isa<tx::IotaOp>(op); })) return {};
  return ops;
}

}  // namespace heddle::passes
