// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns a region of tx ops into stages. Ops that only move elements become part of the places at which others read; element-wise ops become
// arithmetic in a body; a reduction or a contraction becomes a stage, and the ops on its results become its `finish`.
#include "compiler/ir/ngrams.h"
#include "compiler/ir/trees.h"
#include "compiler/stage/root_stages.h"
#include "compiler/stage/scalar_body.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::stage {

namespace {

// Reshapes that only divide the results differently do not change where an element is stored.
Value behind_reshapes(Value value) {
  while (auto reshape = value.getDefiningOp<tx::ReshapeOp>()) value = reshape.getInput();
  return value;
}

class Former {
 public:
  Former(tx::DispatchOp source, std::string& reason, Makers makers)
      : source_(source), copy_(source.clone()), reason_(reason), makers_(makers), context_(source.getContext()), builder_(context_) {}

  FailureOr<StagedRegion> run() {
    StagedRegion staged;
    open(staged);
    expand_softmax();
    RootStages roots(builder_, operands_, symbols_, reason_);
    SmallVector<Value> outputs;
    for (Value yielded : body().getTerminator()->getOperands()) outputs.push_back(behind_reshapes(yielded));
    Exprs extents = tx::extents(tx::tensor(*llvm::max_element(outputs, has_fewer_elements)));
    SmallVector<Value> others;  // of other extents
    for (Value output : outputs) {
      if (tx::extents(tx::tensor(output)) != extents) others.push_back(output);
    }
    if (!others.empty() && makers_ == Makers::last) return refuse("its results have different extents");
    for (Operation& op : body()) {
      if (!llvm::isa<tx::NgramsOp, tx::ScatterOp, tx::SortOp, tx::SuppressOp, tx::TreesOp>(op)) continue;
      if (outputs != SmallVector<Value>{op.getResult(0)})
        return refuse("the results of " + tx::describe(&op) + " are not the region's only results");
      TypeRange types = source_.getOutputs().getTypes();
      Operation* stage = llvm::TypeSwitch<Operation*, Operation*>(&op)
                             .Case([&](tx::NgramsOp ngrams) { return roots.ngrams(ngrams, types); })
                             .Case([&](tx::ScatterOp scatter) { return roots.scatter(scatter, types); })
                             .Case([&](tx::SortOp sort) { return roots.sort(sort, types); })
                             .Case([&](tx::SuppressOp suppress) { return roots.suppress(suppress, types); })
                             .Default([&](Operation* trees) { return roots.walk(llvm::cast<tx::TreesOp>(trees), types); });
      if (!stage) return failure();
      builder_.create<tx::YieldOp>(builder_.getUnknownLoc(), stage->getResults());
      return staged;
    }
    // The last reduction or contraction makes the results itself if it has as many elements as they have.
    Operation* last = nullptr;
    for (Operation& op : body()) {
      if (is_root(&op)) last = &op;
    }
    SmallVector<Value> own = outputs;  // of the last stage
    llvm::erase_if(own, [&](Value output) { return llvm::is_contained(others, output); });
    if (last && tx::element_count(tx::tensor(last->getResult(0))) != tx::element_count(tx::tensor(own.front()))) last = nullptr;
    if (!others.empty() && last) return refuse("its results have different extents");
    if (!make_intermediates(last, roots)) return failure();
    SmallVector<Value> made(outputs.size());
    SmallVector<Type> types;
    for (auto [i, output] : llvm::enumerate(outputs)) {
      Type type = source_.getOutputs()[i].getType();
      if (llvm::is_contained(own, output)) {
        types.push_back(type);
        continue;
      }
      Operation* stage = roots.map(output, tx::extents(tx::tensor(output)), type);
      if (!stage) return failure();
      made[i] = stage->getResult(0);
    }
    Operation* stage = last ? roots.rooted(last, own, extents, types) : roots.map(own, extents, types);
    if (!stage) return failure();
    auto next = stage->result_begin();
    for (Value& value : made) {
      if (!value) value = *next++;
    }
    builder_.create<tx::YieldOp>(builder_.getUnknownLoc(), made);
    return staged;
  }

 private:
  FailureOr<StagedRegion> refuse(const Twine& why) {
    reason_ = why.str();
    return failure();
  }

  static bool has_fewer_elements(Value a, Value b) {
    auto count = [](Value value) { return tx::static_extent(tx::element_count(tx::tensor(value))); };
    if (count(a) && count(b)) return *count(a) < *count(b);
    return tx::tensor(a).getRank() < tx::tensor(b).getRank();
  }

  // An empty dispatch with the source's operands and results.
  void open(StagedRegion& staged) {
    Location location = builder_.getUnknownLoc();
    staged.module = ModuleOp::create(location);
    builder_.setInsertionPointToEnd(staged.module->getBody());
    auto type = builder_.getFunctionType(source_.getInputs().getTypes(), source_.getOutputs().getTypes());
    auto function = builder_.create<func::FuncOp>(location, "region", type);
    if (auto known = source_->getParentOfType<func::FuncOp>()) {
      if (auto symbols = known->getAttrOfType<ArrayAttr>(tx::symbols_attr)) {
        function->setAttr(tx::symbols_attr, symbols);
        symbols_ = symbols.size();
      }
    }
    Block* entry = function.addEntryBlock();
    builder_.setInsertionPointToStart(entry);
    staged.region =
        builder_.create<tx::DispatchOp>(location, source_.getOutputs().getTypes(), entry->getArguments(), source_.getName(),
                                        source_.getTiedAttr(), source_.getSlotAttr(), /*alternative=*/nullptr, source_.getPitchAttr());
    builder_.create<func::ReturnOp>(location, staged.region.getOutputs());
    Block* body = builder_.createBlock(&staged.region.getBody());
    for (BlockArgument argument : copy_->getBody().getArguments()) operands_.map(argument, body->addArgument(argument.getType(), location));
  }

  // The ops of the region, in a copy that may be changed.
  Block& body() { return copy_->getBody().front(); }

  // Replaces softmax by its definition, in which x - max is exponentiated once.
  void expand_softmax() {
    for (Operation& op : llvm::make_early_inc_range(body())) {
      auto softmax = llvm::dyn_cast<tx::SoftmaxOp>(op);
      if (!softmax) continue;
      OpBuilder b(softmax);
      Location at = b.getUnknownLoc();
      RankedTensorType whole = tx::tensor(softmax.getInput());
      Exprs extents = tx::extents(whole);
      int64_t axis = static_cast<int64_t>(softmax.getAxis());
      extents.erase(extents.begin() + axis);
      RankedTensorType row = tx::tensor_type(extents, whole.getElementType());
      SmallVector<int64_t> kept;
      for (int64_t d = 0; d < whole.getRank(); ++d) {
        if (d != axis) kept.push_back(d);
      }
      auto reduced = [&](tx::ReduceKind kind, Value x) -> Value { return b.create<tx::ReduceOp>(at, row, kind, x, axis); };
      auto repeated = [&](Value x) -> Value { return b.create<tx::BroadcastOp>(at, whole, x, kept); };
      Value shifted = b.create<tx::SubOp>(at, softmax.getInput(), repeated(reduced(tx::ReduceKind::max, softmax.getInput())));
      Value exponential = b.create<tx::ExpOp>(at, shifted), sum = reduced(tx::ReduceKind::sum, exponential), result;
      if (softmax.getLog()) {
        result = b.create<tx::SubOp>(at, shifted, repeated(b.create<tx::LogOp>(at, sum)));
      } else {
        result = b.create<tx::MulOp>(at, exponential, repeated(b.create<tx::ReciprocalOp>(at, sum)));
      }
      softmax.replaceAllUsesWith(result);
      softmax.erase();
    }
  }

  // Makes separate stages for all reductions and contractions but the last, and for costly element-wise values that several stages read, or that
  // a contraction reads and another contraction or reduction follows. Such values have compute types. False, with the reason, on failure.
  bool make_intermediates(Operation* last, RootStages& roots) {
    llvm::DenseSet<Operation*> costly = costly_and_shared(last);
    for (Operation& op : body()) {
      bool makes_root = is_root(&op) && &op != last;
      if (!makes_root && !costly.contains(&op)) continue;
      Value value = op.getResult(0);
      Exprs extents = tx::extents(tx::tensor(value));
      Type type = tx::with_element_type(tx::tensor(value), compute_type(tx::tensor(value).getElementType()));
      Operation* stage = makes_root ? roots.rooted(&op, value, extents, type) : roots.map(value, extents, type);
      if (!stage) return false;
      operands_.map(value, stage->getResult(0));
    }
    return true;
  }

  llvm::DenseSet<Operation*> costly_and_shared(Operation* last) {
    llvm::DenseSet<Operation*> found;
    if (llvm::none_of(body(), [](Operation& op) { return is_root(&op); })) return found;
    llvm::DenseMap<Operation*, bool> is_costly;  // by itself or because of an operand
    for (Operation& op : body()) {
      is_costly[&op] = tx::is_elementwise(&op) && (tx::is_costly(&op) || llvm::any_of(op.getOperands(), [&](Value operand) {
                                                     return operand.getDefiningOp() && is_costly.lookup(operand.getDefiningOp());
                                                   }));
    }
    llvm::DenseMap<Operation*, llvm::SmallDenseSet<Operation*>> readers;  // stages, each by its op; null for the last one
    for (Operation& op : llvm::reverse(body())) {
      auto& own = readers[&op];
      for (Operation* user : op.getUsers()) {
        bool is_last = user == last || user->hasTrait<OpTrait::IsTerminator>();
        if (is_last || is_root(user) || found.contains(user)) {
          own.insert(is_last ? nullptr : user);
        } else {
          const auto& through = readers[user];
          own.insert(through.begin(), through.end());
        }
      }
      if (own.size() > 1 && is_costly.lookup(&op)) found.insert(&op);
      if (tx::is_elementwise(&op) && llvm::any_of(op.getUsers(), tx::is_contraction) && depends_on_root(op.getResult(0))) found.insert(&op);
    }
    return found;
  }

  static bool depends_on_root(Value value) {
    SmallVector<Value> waiting = {value};
    llvm::DenseSet<Value> seen;
    while (!waiting.empty()) {
      Operation* op = waiting.pop_back_val().getDefiningOp();
      if (!op) continue;
      if (is_root(op)) return true;
      for (Value operand : op->getOperands()) {
        if (seen.insert(operand).second) waiting.push_back(operand);
      }
    }
    return false;
  }

  tx::DispatchOp source_;
  OwningOpRef<tx::DispatchOp> copy_;  // of the source
  std::string& reason_;
  const Makers makers_;
  MLIRContext* context_;
  OpBuilder builder_;
  IRMapping operands_;  // from operands of the copy, and values that have stages, to values of the staged region
  unsigned symbols_ = 0;
};

}  // namespace

FailureOr<StagedRegion> form_stages(tx::DispatchOp region, std::string& reason, Makers makers) {
  return Former(region, reason, makers).run();
}

}  // namespace heddle::stage
