// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-hoist-constants: what depends on constants only is computed once, at load, by the initializer.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "compiler/passes/constant_expression.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Copies the constant expression behind `value` into the initializer, operands first.
Value copy_into(Value value, OpBuilder& builder, IRMapping& copies) {
  if (Value done = copies.lookupOrNull(value)) return done;
  Operation* op = value.getDefiningOp();
  for (Value operand : op->getOperands()) copy_into(operand, builder, copies);
  builder.clone(*op, copies);
  return copies.lookup(value);
}

// A leaf stays where it is: there is nothing to compute. Broadcasts stay too, since they only make a value larger, and reshapes, which
// cost nothing.
bool passes_on(Operation* op) {
  return llvm::isa<tx::BroadcastOp, tx::ReshapeOp>(op);
}
bool stays(Operation* op) {
  return llvm::isa<tx::ConstantOp, tx::ParameterOp>(op) || passes_on(op);
}

struct HoistConstants : PassWrapper<HoistConstants, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(HoistConstants)
  StringRef getArgument() const final { return "heddle-hoist-constants"; }
  StringRef getDescription() const final {
    return "@main: conv(x, pack(parameter w))  ->  @main: conv(x, parameter \"derived.0\") and @$init: return pack(parameter w), named "
           "\"derived.0\"";
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
    OpBuilder builder(&getContext());
    SmallVector<Value> hoisted;  // in the functions
    llvm::DenseMap<Value, unsigned> index;
    for (func::FuncOp function : functions) {
      if (function.getName() == tx::initializer_name) return;  // has run already
      function.walk([&](Operation* op) {
        bool constant = op->getNumResults() == 1 && is_constant_expression(op->getResult(0));
        if (constant && !stays(op) && !all_users_constant(op)) {
          if (index.try_emplace(op->getResult(0), hoisted.size()).second) hoisted.push_back(op->getResult(0));
        }
      });
    }
    if (hoisted.empty()) return;
    SmallVector<Type> types;
    for (Value value : hoisted) types.push_back(value.getType());
    builder.setInsertionPointToEnd(module.getBody());
    auto init = builder.create<func::FuncOp>(module.getLoc(), tx::initializer_name, builder.getFunctionType({}, types));
    builder.setInsertionPointToStart(init.addEntryBlock());
    IRMapping copies;
    SmallVector<Value> results;
    for (auto [i, value] : llvm::enumerate(hoisted)) {
      results.push_back(copy_into(value, builder, copies));
      init.setResultAttr(i, tx::name_attr, builder.getStringAttr(derived_name(i)));
    }
    builder.create<func::ReturnOp>(module.getLoc(), results);
    for (auto [i, value] : llvm::enumerate(hoisted)) {
      OpBuilder at(value.getDefiningOp());
      Value derived = at.create<tx::ParameterOp>(value.getLoc(), value.getType(), derived_name(i));
      value.replaceAllUsesWith(derived);
    }
    for (func::FuncOp function : functions) erase_dead(function);
  }

  static std::string derived_name(size_t i) { return tx::derived_prefix.str() + std::to_string(i); }

  // Broadcasts and reshapes count as part of the user behind them.
  static bool all_users_constant(Operation* op) {
    return llvm::all_of(op->getUsers(), [](Operation* user) {
      if (passes_on(user)) return is_constant_expression(user->getResult(0)) && all_users_constant(user);
      return user->getNumResults() == 1 && is_constant_expression(user->getResult(0));
    });
  }

  static void erase_dead(func::FuncOp function) {
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front()))) {
      if (isOpTriviallyDead(&op)) op.erase();
    }
  }
};

}  // namespace

std::unique_ptr<Pass> hoist_constants() {
  return std::make_unique<HoistConstants>();
}

}  // namespace heddle::passes
