// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-hoist-constants: values that depend only on constants are computed once, at load, by the initializer, on the slot that uses them. If
// several slots use one, each computes and keeps its own copy. Extents of a call are not constants: values that depend on them are computed
// in each call. The following are also computed in each call:
// - a large value that is computed from indices and read by one element-wise op or reduction,
// - any mask of a softmax that is computed from indices, since attention kernels use it to skip elements, even if no attention is formed,
// - quantized weights in more bits than they are stored in.
#include "compiler/passes/passes.h"

#include "compiler/ir/control.h"
#include "compiler/passes/constant_expression.h"
#include "compiler/passes/index_expression.h"
#include "compiler/passes/slots.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Gives every slot its own constants: the first slot that uses an expression keeps it, each other slot gets a copy. The constants and
// parameters name the slot that they are for.
class ConstantsBySlot {
 public:
  explicit ConstantsBySlot(func::FuncOp function) : function_(function), slots_(function) {}

  void run() {
    for (Operation& op : function_.getBody().front()) {
      for (OpOperand& operand : op.getOpOperands()) {
        Operation* source = operand.get().getDefiningOp();
        StringAttr slot = slots_.of(&op);
        if (op.hasTrait<OpTrait::IsTerminator>()) {
          slot = StringAttr::get(op.getContext(), tx::affinity_of(function_.getResultAttrDict(operand.getOperandNumber())));
        }
        if (source && slot && !slots_.of(source)) operand.set(owned(source, slot)->getResult(0));
      }
    }
  }

 private:
  Operation* owned(Operation* op, StringAttr slot) {
    if (Operation* original = original_.lookup(op)) op = original;
    if (Operation* known = copies_.lookup({op, slot})) return known;
    Operation* mine = op;
    if (!taken_.insert(op).second) {
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      mine = builder.clone(*op);
      original_[mine] = op;
    }
    for (OpOperand& operand : mine->getOpOperands()) operand.set(owned(operand.get().getDefiningOp(), slot)->getResult(0));
    if (mine->getNumOperands() == 0) {
      mine->removeAttr(tx::slot_attr);
      if (slot.getValue() != tx::default_slot) mine->setAttr(tx::slot_attr, slot);
    }
    return copies_[{op, slot}] = mine;
  }

  func::FuncOp function_;
  Slots slots_;
  llvm::DenseMap<std::pair<Operation*, Attribute>, Operation*> copies_;
  llvm::DenseMap<Operation*, Operation*> original_;
  llvm::DenseSet<Operation*> taken_;
};

// Copies the constant expression of `value` into the initializer, operands first.
Value copy_into(Value value, OpBuilder& builder, IRMapping& copies) {
  if (Value done = copies.lookupOrNull(value)) return done;
  Operation* op = value.getDefiningOp();
  for (Value operand : op->getOperands()) copy_into(operand, builder, copies);
  builder.clone(*op, copies);
  return copies.lookup(value);
}

// Adds the ops that can be computed without a call: they depend only on constants and parameters, and their extents are static.
void note_known(func::FuncOp function, llvm::DenseSet<Operation*>& known) {
  for (Operation& op : function.getBody().front()) {
    if (!llvm::isa_and_nonnull<tx::TxDialect>(op.getDialect()) || op.getNumRegions() != 0 || tx::stays_apart(&op)) continue;
    auto is_static = [](Type type) { return llvm::cast<RankedTensorType>(type).hasStaticShape(); };
    auto is_known = [&](Value operand) { return operand.getDefiningOp() && known.contains(operand.getDefiningOp()); };
    if (llvm::all_of(op.getResultTypes(), is_static) && llvm::all_of(op.getOperands(), is_known)) known.insert(&op);
  }
}

// Leaves are not hoisted: there is nothing to compute. Neither are broadcasts, since they only make a value larger, nor reshapes, which cost
// nothing.
bool passes_on(Operation* op) {
  return tx::is_view(op);
}
bool stays(Operation* op) {
  if (llvm::isa<tx::ConstantOp, tx::ParameterOp>(op)) return true;
  // A contraction cannot repeat a zero point itself, so that it would be a tensor of each call.
  const bool is_zero_point = llvm::isa<tx::BroadcastOp>(op) && tx::tensor(op->getResult(0)).getRank() == 1 &&
                             llvm::any_of(op->getUsers(), [](Operation* user) { return tx::is_contraction(user); });
  return passes_on(op) && !is_zero_point;
}

// Whether the value is an input of a softmax, directly or through element-wise ops.
bool masks_softmax(Value value) {
  constexpr size_t most = 16;
  llvm::SetVector<Operation*> ops;
  ops.insert(value.user_begin(), value.user_end());
  for (size_t i = 0; i < ops.size() && i < most; ++i) {
    if (llvm::isa<tx::SoftmaxOp>(ops[i])) return true;
    if (passes_on(ops[i]) || tx::is_elementwise(ops[i])) ops.insert(ops[i]->user_begin(), ops[i]->user_end());
  }
  return false;
}

// Whether the reading kernel should compute the value itself, if its region includes it, as most regions do.
bool is_for_kernels(Value value) {
  constexpr int64_t most_kept = 1 << 16;  // elements
  if (index_expression(value).empty()) return false;
  if (masks_softmax(value)) return true;
  if (tx::tensor(value).getNumElements() <= most_kept || !value.hasOneUse()) return false;
  Operation* user = *value.user_begin();
  return tx::is_elementwise(user) || llvm::isa<tx::RowsOp>(user);
}

struct HoistConstants : PassWrapper<HoistConstants, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(HoistConstants)
  StringRef getArgument() const final { return "heddle-hoist-constants"; }
  StringRef getDescription() const final {
    return "@main: conv(x, pack(parameter w))  ->  @main: conv(x, parameter \"derived.0\") and @$init: return pack(parameter w), named "
           "\"derived.0\"";
  }

  void runOnOperation() override {
    known_.clear();
    widened_ = {};
    ModuleOp module = getOperation();
    auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
    OpBuilder builder(&getContext());
    SmallVector<Value> hoisted;  // in the functions
    llvm::DenseMap<Value, unsigned> index;
    for (func::FuncOp function : functions) {
      if (function.getName() == tx::initializer_name) return;  // the pass has run already
      ConstantsBySlot(function).run();
      note_known(function, known_);
      function.walk([&](Operation* op) {
        if (known_.contains(op) && !stays(op) && !all_users_known(op)) {
          if (is_for_kernels(op->getResult(0)) || widened_.contains(op->getResult(0))) return;
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
    SmallVector<StringAttr> slots;  // null: the default slot
    for (auto [i, value] : llvm::enumerate(hoisted)) {
      slots.push_back(slot_of_constant(value));
      if (slots.back()) init.setResultAttr(i, tx::affinity_attr, slots.back());
      results.push_back(copy_into(value, builder, copies));
      init.setResultAttr(i, tx::name_attr, builder.getStringAttr(derived_name(i)));
    }
    builder.create<func::ReturnOp>(module.getLoc(), results);
    for (auto [i, value] : llvm::enumerate(hoisted)) {
      OpBuilder at(value.getDefiningOp());
      auto derived =
          at.create<tx::ParameterOp>(value.getLoc(), value.getType(), derived_name(i), /*scope=*/StringAttr(), /*blocks=*/StringAttr());
      if (slots[i]) derived->setAttr(tx::slot_attr, slots[i]);
      value.replaceAllUsesWith(derived);
    }
    for (func::FuncOp function : functions) erase_dead(function);
  }

  // The slot of an expression that belongs to one slot: any of its leaves names it.
  static StringAttr slot_of_constant(Value value) {
    Operation* op = value.getDefiningOp();
    while (op->getNumOperands() != 0) op = op->getOperand(0).getDefiningOp();
    return op->getAttrOfType<StringAttr>(tx::slot_attr);
  }

  static std::string derived_name(size_t i) { return tx::derived_prefix.str() + std::to_string(i); }

  // Whether all users are computed at load, so that only their results need be kept. Broadcasts and reshapes count as part of their user. Widened
  // weights are computed in each call, so they do not count.
  bool all_users_known(Operation* op) {
    return llvm::all_of(op->getUsers(), [&](Operation* user) {
      return known_.contains(user) && !widened_.contains(user->getResult(0)) && (!passes_on(user) || all_users_known(user));
    });
  }

  static void erase_dead(func::FuncOp function) {
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front()))) {
      if (isOpTriviallyDead(&op)) op.erase();
    }
  }

  llvm::DenseSet<Operation*> known_;
  WidenedWeights widened_;
};

}  // namespace

std::unique_ptr<Pass> hoist_constants() {
  return std::make_unique<HoistConstants>();
}

}  // namespace heddle::passes
