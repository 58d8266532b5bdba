// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-place-ops: decides the slot of every op, argument and result, and inserts a transfer wherever a value goes to another slot. Runs before
// the rewriting passes: all ops between transfers are on one slot afterwards, and later passes rewrite them without asking (slots.h).
//
// A place is a set of slots: empty (unknown), one, or several, of which the lowest is taken. Only annotations fix a place.
//  * An annotated op is on the slot of its annotation. A view (reshape, broadcast) is where its input is, a result where it is produced, and an
//    argument where its consumers are. The graph has no cycles: one walk up and one down reach the fixpoint.
//  * Then every other op goes to the default slot: an annotation applies only to the ops that it names, never to their users.
//  * Constants are not placed here. Each slot that uses one gets its own (heddle-hoist-constants).
#include "compiler/passes/passes.h"

#include <map>

#include "compiler/ir/control.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

constexpr size_t most_slots = 64;  // limit of a module file

struct LowerSlot {
  bool operator()(StringRef left, StringRef right) const { return tx::is_lower_slot(left, right); }
};
// The ops that need a value on a slot, the first in program order, lowest slot first.
using Place = std::map<StringRef, Operation*, LowerSlot>;

class Placer {
 public:
  explicit Placer(func::FuncOp function) : function_(function), block_(function.getBody().front()) {
    for (Operation& op : block_) {
      bool known = llvm::isa_and_nonnull<tx::TxDialect>(op.getDialect()) && op.getNumRegions() == 0 && !tx::stays_apart(&op);
      if (known && llvm::all_of(op.getOperands(), [&](Value operand) { return is_constant(operand); })) constants_.insert(&op);
    }
    for (Operation& op : llvm::reverse(block_)) note_preferences(&op);
    for (Operation& op : block_) {
      if (is_view(&op)) of_view_[&op] = slot_of(op.getOperand(0));
    }
  }

  LogicalResult check() {
    auto fits = [](Attribute slot) { return !slot || (llvm::isa<StringAttr>(slot) && tx::is_slot_name(llvm::cast<StringAttr>(slot))); };
    auto refused = [](InFlightDiagnostic&& error, Attribute slot) {
      return LogicalResult(error << "is placed on " << slot << "; use default, or @ and a name");
    };
    for (Operation& op : block_) {
      if (Attribute slot = op.getAttr(tx::place_attr); !fits(slot)) return refused(op.emitError(), slot);
    }
    for (unsigned i = 0; i < function_.getNumArguments(); ++i) {
      Attribute slot = function_.getArgAttr(i, tx::affinity_attr);
      if (!fits(slot)) return refused(function_.emitError("argument ") << i << " ", slot);
    }
    for (unsigned i = 0; i < function_.getNumResults(); ++i) {
      Attribute slot = function_.getResultAttr(i, tx::affinity_attr);
      if (!fits(slot)) return refused(function_.emitError("result ") << i << " ", slot);
    }
    return success();
  }

  // Collects every slot that something is on.
  void note_slots(Place& slots) const {
    for (Operation& op : block_) {
      if (auto slot = op.getAttrOfType<StringAttr>(tx::place_attr)) slots.try_emplace(slot.getValue(), &op);
      if (!is_constant(&op) && !op.hasTrait<OpTrait::IsTerminator>()) slots.try_emplace(slot_of(&op), &op);
    }
    for (BlockArgument argument : block_.getArguments()) slots.try_emplace(slot_of(argument), function_);
    for (unsigned i = 0; i < function_.getNumResults(); ++i) slots.try_emplace(slot_of_result(i), function_);
  }

  void note_placements(std::map<std::string, std::string>& placements) const {
    for (Operation& op : block_) {
      auto name = llvm::dyn_cast<NameLoc>(op.getLoc());
      if (name && op.hasAttr(tx::place_attr)) placements.try_emplace(name.getName().str(), slot_of(&op).str() + " by " + who_placed(&op));
    }
  }

  void remark_on_default() const {
    Operation* first = nullptr;
    unsigned unplaced = 0, all = 0;
    for (Operation& op : block_) {
      if (is_constant(&op) || is_view(&op) || op.hasTrait<OpTrait::IsTerminator>()) continue;
      ++all;
      if (op.hasAttr(tx::place_attr) || llvm::isa<tx::TransferOp>(op)) continue;
      if (++unplaced == 1) first = &op;
    }
    if (first)
      function_.emitRemark() << unplaced << " of " << all << " ops have no placement and are on the default slot; the first is "
                             << tx::describe(first);
  }

  void annotate() const {
    for (BlockArgument argument : block_.getArguments()) {
      Place place = wanted_.lookup(argument);
      auto remark = function_.emitRemark() << "argument " << argument.getArgNumber() << ": on " << slot_of(argument) << ", decided by ";
      if (function_.getArgAttr(argument.getArgNumber(), tx::affinity_attr)) {
        remark << "its annotation";
      } else {
        remark << (place.empty() ? std::string("default") : tx::describe(place.begin()->second));
      }
      if (place.size() > 1) remark << "; wanted on " << text_of(place);
    }
    for (Operation& op : block_) {
      if (op.hasTrait<OpTrait::IsTerminator>()) continue;
      auto remark = op.emitRemark() << tx::describe(&op) << ": ";
      if (is_constant(&op)) {
        remark << "constant, on every slot that uses it";
        continue;
      }
      remark << "operands";
      for (Value operand : op.getOperands()) remark << " " << (is_constant(operand) ? StringRef("constant") : slot_of(operand));
      remark << ", result " << slot_of(&op) << ", decided by " << decider(&op);
    }
    for (unsigned i = 0; i < function_.getNumResults(); ++i) {
      auto remark = function_.emitRemark() << "result " << i << ": on " << slot_of_result(i) << ", decided by ";
      Value value = block_.getTerminator()->getOperand(i);
      if (function_.getResultAttr(i, tx::affinity_attr)) {
        remark << "its annotation";
      } else if (is_constant(value)) {
        remark << "default";
      } else {
        remark << (value.getDefiningOp() ? tx::describe(value.getDefiningOp())
                                         : "argument " + std::to_string(llvm::cast<BlockArgument>(value).getArgNumber()));
      }
    }
  }

  // Applies the decisions. The queries of this class are not valid afterwards.
  void rewrite() {
    for (Operation& op : block_) {
      if (is_constant(&op) || is_view(&op) || llvm::isa<tx::TransferOp>(op) || op.hasTrait<OpTrait::IsTerminator>()) continue;
      for (OpOperand& operand : op.getOpOperands()) operand.set(moved(operand.get(), slot_of(&op), &op));
    }
    Operation* end = block_.getTerminator();
    SmallVector<StringRef> of_arguments, of_results;
    for (BlockArgument argument : block_.getArguments()) of_arguments.push_back(slot_of(argument));
    for (unsigned i = 0; i < function_.getNumResults(); ++i) of_results.push_back(slot_of_result(i));
    for (auto [i, slot] : llvm::enumerate(of_results)) end->setOperand(i, moved(end->getOperand(i), slot, end));
    Builder builder(function_.getContext());
    for (auto [i, slot] : llvm::enumerate(of_arguments)) function_.setArgAttr(i, tx::affinity_attr, builder.getStringAttr(slot));
    for (auto [i, slot] : llvm::enumerate(of_results)) function_.setResultAttr(i, tx::affinity_attr, builder.getStringAttr(slot));
    for (Operation& op : block_) {
      // Their operands, if any, do not determine their slot.
      if (tx::stays_apart(&op)) op.setAttr(tx::slot_attr, StringAttr::get(op.getContext(), slot_of(&op)));
      if (auto region = llvm::dyn_cast<tx::DispatchOp>(op); region && region.getAlternative()) region.setSlot(slot_of(&op));
      op.removeAttr(tx::place_attr);
      op.removeAttr(tx::placed_by_attr);
    }
  }

 private:
  bool is_constant(Operation* op) const { return constants_.contains(op); }
  bool is_constant(Value value) const { return value.getDefiningOp() && is_constant(value.getDefiningOp()); }
  // An op that moves no data and was not placed itself.
  static bool is_view(Operation* op) { return op && tx::is_view(op) && !op->hasAttr(tx::place_attr); }

  StringRef slot_of(Operation* op) const {
    if (auto transfer = llvm::dyn_cast<tx::TransferOp>(op)) return transfer.getTo();
    if (auto slot = op->getAttrOfType<StringAttr>(tx::place_attr)) return slot.getValue();
    auto view = of_view_.find(op);
    return view == of_view_.end() ? StringRef(tx::default_slot) : view->second;
  }
  StringRef slot_of(Value value) const {
    if (Operation* op = value.getDefiningOp()) return slot_of(op);
    if (auto slot = function_.getArgAttrOfType<StringAttr>(llvm::cast<BlockArgument>(value).getArgNumber(), tx::affinity_attr))
      return slot.getValue();
    auto place = wanted_.find(value);
    return place == wanted_.end() ? StringRef(tx::default_slot) : place->second.begin()->first;
  }
  StringRef slot_of_result(unsigned index) const {
    if (auto slot = function_.getResultAttrOfType<StringAttr>(index, tx::affinity_attr)) return slot.getValue();
    Value value = block_.getTerminator()->getOperand(index);
    return is_constant(value) ? StringRef(tx::default_slot) : slot_of(value);
  }

  // Records on which slot an op needs the operands whose own place depends on it; views pass on the needs of their users.
  void note_preferences(Operation* op) {
    for (OpOperand& use : op->getOpOperands()) {
      Value value = use.get();
      if (is_constant(value) || (value.getDefiningOp() && !is_view(value.getDefiningOp()))) continue;
      if (op->hasTrait<OpTrait::IsTerminator>()) {
        auto slot = function_.getResultAttrOfType<StringAttr>(use.getOperandNumber(), tx::affinity_attr);
        if (slot) wanted_[value][slot.getValue()] = op;
      } else if (!is_view(op)) {
        auto transfer = llvm::dyn_cast<tx::TransferOp>(op);
        wanted_[value][transfer ? transfer.getFrom() : slot_of(op)] = op;
      } else if (auto there = wanted_.find(op->getResult(0)); there != wanted_.end()) {
        Place place = there->second;  // a copy: the table may grow
        for (const auto& [slot, user] : place) wanted_[value][slot] = user;
      }
    }
  }

  // The value on that slot, for `user`: itself, or the result of one transfer shared by all users on that slot. Views are repeated after the
  // transfer.
  Value moved(Value value, StringRef slot, Operation* user) {
    if (is_constant(value)) return value;
    auto name = StringAttr::get(user->getContext(), slot);
    auto there = [&] { return slot_of(value) == slot ? value : moved_.lookup({value, name}); };
    SmallVector<Value> views;
    for (; !there() && is_view(value.getDefiningOp()); value = value.getDefiningOp()->getOperand(0)) views.push_back(value);
    OpBuilder builder(user);
    Value result = there();
    if (!result) {
      result = builder.create<tx::TransferOp>(value.getLoc(), value.getType(), value, slot_of(value), slot);
      moved_[{value, name}] = result;
    }
    for (Value view : llvm::reverse(views)) {
      Operation* copy = builder.clone(*view.getDefiningOp());
      copy->setOperand(0, result);
      moved_[{view, name}] = result = copy->getResult(0);
    }
    return result;
  }

  static std::string who_placed(Operation* op) {
    auto text = op->getAttrOfType<StringAttr>(tx::placed_by_attr);
    return text ? text.str() : "its own attribute";
  }
  std::string decider(Operation* op) const {
    if (op->hasAttr(tx::place_attr)) return who_placed(op);
    if (llvm::isa<tx::TransferOp>(op)) return "itself";
    if (!is_view(op)) return "default";
    Value input = op->getOperand(0);
    return input.getDefiningOp() ? tx::describe(input.getDefiningOp())
                                 : "argument " + std::to_string(llvm::cast<BlockArgument>(input).getArgNumber());
  }
  static std::string text_of(const Place& place) {
    std::string text;
    for (const auto& [slot, user] : place) text += (text.empty() ? "" : ", ") + slot.str();
    return text;
  }

  mutable func::FuncOp function_;  // its methods are not const
  Block& block_;
  llvm::DenseSet<Operation*> constants_;
  llvm::DenseMap<Value, Place> wanted_;  // of arguments and views
  llvm::DenseMap<Operation*, StringRef> of_view_;
  llvm::DenseMap<std::pair<Value, Attribute>, Value> moved_;
};

struct PlaceOps : PassWrapper<PlaceOps, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlaceOps)
  PlaceOps() = default;
  PlaceOps(const PlaceOps& other) : PassWrapper(other) {}
  StringRef getArgument() const final { return "heddle-place-ops"; }
  StringRef getDescription() const final {
    return "b(a(x) {place = \"@a\"}) {place = \"@b\"}  ->  b(transfer(a(x)) from @a to @b), x on @a, the result on @b";
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::vector<Placer> placers;
    for (auto function : module.getOps<func::FuncOp>()) {
      placers.emplace_back(function);
      if (failed(placers.back().check())) return signalPassFailure();
    }
    Place slots;
    std::map<std::string, std::string> placements;
    for (const Placer& placer : placers) {
      placer.note_slots(slots);
      placer.note_placements(placements);
    }
    if (slots.size() > most_slots) {
      module.emitError("has ops on ") << slots.size() << " slots; a module has at most " << most_slots;
      return signalPassFailure();
    }
    Builder builder(&getContext());
    SmallVector<Attribute> names;
    for (const auto& [slot, user] : slots) names.push_back(builder.getStringAttr(slot));
    if (names.empty()) names.push_back(builder.getStringAttr(tx::default_slot));
    SmallVector<NamedAttribute> said;
    for (const auto& [node, text] : placements) {
      if (!node.empty()) said.push_back(builder.getNamedAttr(node, builder.getStringAttr(text)));
    }
    for (const Placer& placer : placers) {
      if (slots.size() > 1) placer.remark_on_default();
      if (annotated) placer.annotate();
    }
    for (Placer& placer : placers) placer.rewrite();
    module->setAttr(tx::slots_attr, builder.getArrayAttr(names));
    if (!said.empty()) module->setAttr(tx::placements_attr, builder.getDictionaryAttr(said));
  }

  Option<bool> annotated{*this, "annotate", llvm::cl::desc("say where every op is, and why")};
};

}  // namespace

std::unique_ptr<Pass> place_ops(bool annotate) {
  auto pass = std::make_unique<PlaceOps>();
  pass->annotated = annotate;
  return pass;
}

}  // namespace heddle::passes
