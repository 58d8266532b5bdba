// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-overwrite-operands: if a region is the last reader of a value, and each element of its result needs only the value's element at the
// same place, the result overwrites the value; an example is the sum of a residual connection. Calls need less memory, and the overwritten
// memory is already in the cache. Values are those of regions, and donated arguments of the function.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// A result of the function has its own memory, and a part of a concat is in the memory of that.
bool has_own_place(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation* user) {
    return user->hasTrait<OpTrait::IsTerminator>() || llvm::isa<tx::ConcatOp>(user) ||
           (tx::has_same_bytes(user) && has_own_place(user->getResult(0)));
  });
}

// Whether the region depends on all other readers of the operand, so that it waits for them anyway.
bool waits_for_other_readers(tx::DispatchOp region, Value operand) {
  operand = tx::storage_of(operand);
  llvm::DenseSet<Operation*> others;
  Operation* first = region;
  SmallVector<Value> values = {operand};
  while (!values.empty()) {
    for (Operation* user : values.pop_back_val().getUsers()) {
      if (tx::has_same_bytes(user)) {
        values.push_back(user->getResult(0));
      } else if (user != region) {
        others.insert(user);
        if (user->isBeforeInBlock(first)) first = user;
      }
    }
  }
  llvm::DenseSet<Operation*> seen;
  values.assign(region->operand_begin(), region->operand_end());
  while (!values.empty() && !others.empty()) {
    Operation* maker = values.pop_back_val().getDefiningOp();
    if (!maker || !seen.insert(maker).second || maker->isBeforeInBlock(first)) continue;
    others.erase(maker);
    llvm::append_range(values, maker->getOperands());
  }
  return others.empty();
}

// The first result of the function that is the value, or a view of it.
std::optional<unsigned> result_of(Value value) {
  Operation* end = value.getParentBlock()->getTerminator();
  for (auto [i, returned] : llvm::enumerate(end->getOperands())) {
    if (tx::storage_of(returned) == value) return static_cast<unsigned>(i);
  }
  return std::nullopt;
}

// Whether the value is computed from the other one.
bool depends_on(Value value, Value other) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> waiting = {value};
  while (!waiting.empty()) {
    Value each = waiting.pop_back_val();
    if (each == other) return true;
    if (each.getDefiningOp() && seen.insert(each).second) llvm::append_range(waiting, each.getDefiningOp()->getOperands());
  }
  return false;
}

// The operands that the region's results may overwrite, -1 for none; empty if there are none.
SmallVector<int64_t> dying_operands(tx::DispatchOp region) {
  if (region.getAlternative() || region.getTied()) return {};
  SmallVector<int64_t> places(region.getNumResults(), -1);
  llvm::DenseSet<Value> tried;  // memory that a result has taken
  for (auto [r, yielded] : llvm::enumerate(region.getBody().front().getTerminator()->getOperands())) {
    Value result = region.getResult(static_cast<unsigned>(r));
    const bool is_inside = !has_own_place(result);
    const std::optional<unsigned> returned = is_inside ? std::nullopt : result_of(result);
    for (auto [i, operand] : llvm::enumerate(region.getInputs())) {
      BlockArgument inside = region.getBody().getArgument(static_cast<unsigned>(i));
      Value storage = tx::storage_of(operand);
      if (inside.getType() != yielded.getType() || inside == yielded || tried.contains(storage)) continue;
      if (!tx::dies_with(region, operand) || !tx::is_read_in_place(inside)) continue;
      // The memory of an argument that a result takes is for that result alone. It has to wait for the other readers in any case.
      const std::optional<unsigned> alias = tx::alias_of(storage);
      const bool may = alias ? alias == returned : is_inside && depends_on(yielded, inside) && waits_for_other_readers(region, operand);
      if (!may) continue;
      places[r] = static_cast<int64_t>(i);
      tried.insert(storage);
      break;
    }
  }
  if (tried.empty()) places.clear();
  return places;
}

struct OverwriteOperands : PassWrapper<OverwriteOperands, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OverwriteOperands)
  StringRef getArgument() const final { return "heddle-overwrite-operands"; }
  StringRef getDescription() const final { return "results overwrite operands that nothing reads afterwards"; }
  // Values computed at load are kept, and are read in the initializer's own order.
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.getName() == tx::initializer_name) continue;
      for (auto region : function.getOps<tx::DispatchOp>()) {
        const SmallVector<int64_t> operands = dying_operands(region);
        StringRef family = tx::family_of(getOperation(), region.getSlot().value_or(tx::default_slot));
        if (!operands.empty() && devices_.work_in_place(family, region)) region.setTied(operands);
      }
    }
  }

  void getDependentDialects(DialectRegistry& registry) const override { devices_.register_dialects(registry); }

  explicit OverwriteOperands(const Devices& devices) : devices_(devices) {}
  const Devices& devices_;
};

}  // namespace

std::unique_ptr<Pass> overwrite_operands(const Devices& devices) {
  return std::make_unique<OverwriteOperands>(devices);
}

}  // namespace heddle::passes
