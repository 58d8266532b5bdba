// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See code_units.h.
#include "compiler/targets/code_units.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace heddle::targets {

namespace {

class Splitter {
 public:
  explicit Splitter(ModuleOp kernels) : kernels_(kernels) {
    for (Operation& op : *kernels.getBody()) {
      if (auto name = op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName())) ops_[name] = &op;
    }
  }

  CodeUnit unit_of(func::FuncOp root) {
    llvm::DenseSet<Operation*> own;
    llvm::SetVector<Operation*> calls;
    add(root, root, own, calls);
    CodeUnit unit;
    unit.name = root.getName().str();
    unit.module = ModuleOp::create(root.getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(unit.module->getBody());
    for (Operation* call : calls) {
      auto callee = llvm::cast<func::FuncOp>(call);
      unit.calls.push_back(callee.getName().str());
      builder.create<func::FuncOp>(callee.getLoc(), callee.getName(), callee.getFunctionType()).setPrivate();
    }
    for (Operation& op : *kernels_.getBody()) {
      if (!own.contains(&op)) continue;
      Operation* copy = builder.clone(op);
      if (&op == root) llvm::cast<func::FuncOp>(copy).setPublic();
    }
    return unit;
  }

 private:
  // The symbols that an op and everything reachable from it refers to.
  void add(Operation* op, Operation* root, llvm::DenseSet<Operation*>& own, llvm::SetVector<Operation*>& calls) {
    if (op != root && op->hasAttr(outlined_attr)) {
      calls.insert(op);
      return;
    }
    if (!own.insert(op).second) return;
    op->walk([&](Operation* inner) {
      for (NamedAttribute attribute : inner->getAttrs()) {
        attribute.getValue().walk([&](FlatSymbolRefAttr reference) {
          if (auto found = ops_.find(reference.getAttr()); found != ops_.end()) add(found->second, root, own, calls);
        });
      }
    });
  }

  ModuleOp kernels_;
  llvm::DenseMap<StringAttr, Operation*> ops_;
};

}  // namespace

std::vector<CodeUnit> split_code(ModuleOp kernels) {
  Splitter splitter(kernels);
  std::vector<CodeUnit> units;
  for (bool is_outlined : {false, true}) {
    for (auto function : kernels.getOps<func::FuncOp>()) {
      if (function->hasAttr(outlined_attr) == is_outlined && (is_outlined || function.isPublic()))
        units.push_back(splitter.unit_of(function));
    }
  }
  return units;
}

}  // namespace heddle::targets
