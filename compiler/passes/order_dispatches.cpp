// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-order-dispatches: independent dispatches are placed next to each other. Commands between two barriers may overlap, so one branch uses the
// cores that the last workgroups of another leave idle.
//
// Each dispatch comes as late as its longest path to the end allows, so that its result is kept for a short time. If that order would take notably
// more memory than the order of the model, the model's order is kept.
//
// What has a symbol that is read comes after the read (tx.read) or the loop that gives it, as do branches, loops and reads that came after a read
// before.
#include "compiler/passes/passes.h"

#include "compiler/ir/control.h"
#include "compiler/ir/read.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// The value assumed for a symbol when sizes are compared.
constexpr int64_t usual_extent = 64;

bool is_leaf(Operation* op) {
  return llvm::isa<tx::ConstantOp, tx::ParameterOp>(op) || op->hasTrait<OpTrait::IsTerminator>();
}

// A view, not a command.
bool is_view(Operation* op) {
  return tx::has_same_bytes(op);
}

uint64_t usual_bytes(Value value) {
  RankedTensorType type = tx::tensor(value);
  uint64_t bytes = (type.getElementTypeBitWidth() + 7) / 8;
  for (AffineExpr extent : tx::extents(type)) {
    unsigned symbols = 0;
    extent.walk([&](AffineExpr part) {
      if (auto symbol = llvm::dyn_cast<AffineSymbolExpr>(part)) symbols = std::max(symbols, symbol.getPosition() + 1);
    });
    SmallVector<AffineExpr> usual(symbols, getAffineConstantExpr(usual_extent, extent.getContext()));
    auto number = llvm::dyn_cast<AffineConstantExpr>(simplifyAffineExpr(extent.replaceSymbols(usual), 0, 0));
    uint64_t count = number ? static_cast<uint64_t>(std::max<int64_t>(number.getValue(), 0)) : usual_extent;
    bytes = llvm::SaturatingMultiply(bytes, count);
  }
  return bytes;
}

class Orderer {
 public:
  explicit Orderer(Block& block) : block_(block) {
    for (Operation& op : block) {
      if (!is_leaf(&op)) ops_.push_back(&op);
    }
  }

  // Puts ops behind the reads whose symbols they have. False if a read depends on its own symbol.
  bool put_behind_reads() {
    for (const tx::ReadSymbol& symbol : tx::read_symbols(block_)) {
      for (Operation* op : ops_) {
        if (op != symbol.op && tx::mentions(op, symbol.position)) behind_[op].insert(symbol.op);
      }
    }
    SmallVector<Operation*> earlier;
    for (Operation* op : ops_) {
      if (!tx::stays_apart(op)) continue;
      for (Operation* read : earlier) behind_[op].insert(read);
      if (llvm::isa<tx::ReadOp>(op)) earlier.push_back(op);
    }
    if (behind_.empty()) return true;
    for (auto& [op, reads] : behind_) {
      for (Operation* read : reads) before_[read].push_back(op);
    }
    // In the order that they have, each as soon as all that it needs is there.
    llvm::DenseSet<Operation*> done;
    SmallVector<Operation*> ordered, waiting(ops_.begin(), ops_.end());
    auto is_ready = [&](Operation* op) {
      return llvm::all_of(op->getOperands(),
                          [&](Value operand) {
                            Operation* maker = operand.getDefiningOp();
                            return !maker || is_leaf(maker) || done.contains(maker);
                          }) &&
             llvm::all_of(behind_.lookup(op), [&](Operation* read) { return done.contains(read); });
    };
    while (!waiting.empty()) {
      const size_t before = waiting.size();
      llvm::erase_if(waiting, [&](Operation* op) {
        if (!is_ready(op)) return false;
        done.insert(op);
        ordered.push_back(op);
        return true;
      });
      if (waiting.size() == before) {
        waiting.front()->emitError("depends on an extent that depends on it");
        return false;
      }
    }
    if (!llvm::equal(ordered, ops_)) {
      for (Operation* op : ordered) op->moveBefore(block_.getTerminator());
      ops_ = std::move(ordered);
    }
    return true;
  }

  void run() {
    for (Operation* op : llvm::reverse(ops_)) {
      unsigned steps = 0;
      for (Operation* user : op->getUsers()) {
        if (!is_leaf(user)) steps = std::max(steps, steps_.lookup(user) + (is_view(user) ? 0 : 1));
      }
      for (Operation* user : before_.lookup(op)) steps = std::max(steps, steps_.lookup(user) + 1);
      steps_[op] = steps;
    }
    // A region that overwrites an operand must come after all other readers of it. A function with such a region, which is hand-written at this
    // point, keeps its order.
    auto overwrites = [](Operation* op) {
      auto dispatch = llvm::dyn_cast<tx::DispatchOp>(op);
      return dispatch && dispatch.overwritten();
    };
    if (llvm::any_of(ops_, overwrites)) return;
    SmallVector<Operation*> ordered(ops_.begin(), ops_.end());
    llvm::stable_sort(ordered, [&](Operation* a, Operation* b) { return steps_.lookup(a) > steps_.lookup(b); });
    if (llvm::equal(ordered, ops_) || peak(ordered) > peak(ops_) / 10 * 11) return;
    for (Operation* op : ordered) op->moveBefore(block_.getTerminator());
  }

 private:
  // The largest number of bytes of intermediate values that are alive at once. A value is alive from the op that makes it to the barrier after its
  // last reader; there is a barrier before any op that reads a value made since the previous barrier.
  uint64_t peak(ArrayRef<Operation*> order) const {
    llvm::DenseMap<Value, Operation*> last;
    for (Operation* op : order) {
      for (Value operand : op->getOperands()) {
        if (Operation* maker = tx::storage_of(operand).getDefiningOp(); maker && !is_leaf(maker)) last[tx::storage_of(operand)] = op;
      }
    }
    for (Value result : block_.getTerminator()->getOperands()) last.erase(tx::storage_of(result));
    llvm::DenseMap<Operation*, SmallVector<Value>> freed;
    for (auto [value, op] : last) freed[op].push_back(value);
    uint64_t now = 0, most = 0, at_barrier = 0;
    llvm::DenseSet<Value> fresh;
    for (Operation* op : order) {
      bool waits = llvm::any_of(op->getOperands(), [&](Value operand) { return fresh.contains(tx::storage_of(operand)); });
      if (!is_view(op) && waits) {
        now -= std::min(now, std::exchange(at_barrier, 0));
        fresh.clear();
      }
      for (Value result : is_view(op) ? ValueRange() : ValueRange(op->getResults())) {
        fresh.insert(result);
        if (last.contains(result)) now = llvm::SaturatingAdd(now, usual_bytes(result));
      }
      most = std::max(most, now);
      for (Value value : freed.lookup(op)) at_barrier = llvm::SaturatingAdd(at_barrier, usual_bytes(value));
    }
    return most;
  }

  Block& block_;
  SmallVector<Operation*> ops_;
  llvm::DenseMap<Operation*, unsigned> steps_;                              // on the longest path to the end
  llvm::DenseMap<Operation*, llvm::SmallSetVector<Operation*, 4>> behind_;  // reads that come before an op
  llvm::DenseMap<Operation*, SmallVector<Operation*>> before_;              // the same, by read
};

struct OrderDispatches : PassWrapper<OrderDispatches, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OrderDispatches)
  StringRef getArgument() const override { return "heddle-order-dispatches"; }
  StringRef getDescription() const override { return "independent dispatches are placed next to each other"; }
  // The initializer reads parameters in its own order (core/submit/initializer_parts).
  void runOnOperation() override {
    if (getOperation().getName() == tx::initializer_name) return;
    Orderer orderer(getOperation().getBody().front());
    if (!orderer.put_behind_reads()) return signalPassFailure();
    orderer.run();
  }
};

}  // namespace

std::unique_ptr<Pass> order_dispatches() {
  return std::make_unique<OrderDispatches>();
}

}  // namespace heddle::passes
