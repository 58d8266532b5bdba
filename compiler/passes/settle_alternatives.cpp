// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-settle-alternatives: importers make a region of a node that a library plugin may run. It stays one if a single kernel computes the whole
// node on the same bindings; otherwise it becomes plain ops again, with the reason. Runs first, so that later passes treat both alike.
#include "compiler/ir/tx.h"
#include "compiler/passes/constant_expression.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/regions.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Constant filters and matrices are read in panels, not as the model has them.
bool reads_packed(tx::DispatchOp node) {
  auto is_packed = [&](Value weights) {
    auto argument = llvm::dyn_cast<BlockArgument>(weights);
    return argument && is_constant_expression(node.getInputs()[argument.getArgNumber()]);
  };
  return llvm::any_of(node.getBody().front(), [&](Operation& op) {
    if (auto conv = llvm::dyn_cast<tx::ConvOp>(op)) return is_packed(conv.getFilter());
    auto matmul = llvm::dyn_cast<tx::MatmulOp>(op);
    return matmul && is_packed(matmul.getRhs());
  });
}

// The node as a function of its own, divided into regions.
class Alone {
 public:
  explicit Alone(tx::DispatchOp node) : module_(ModuleOp::create(node.getLoc())) {
    OpBuilder builder = OpBuilder::atBlockEnd(module_->getBody());
    Block& body = node.getBody().front();
    function_ =
        builder.create<func::FuncOp>(node.getLoc(), "node", builder.getFunctionType(body.getArgumentTypes(), node.getResultTypes()));
    IRMapping copies;
    Block* block = function_.addEntryBlock();
    copies.map(body.getArguments(), block->getArguments());
    builder.setInsertionPointToStart(block);
    for (Operation& op : body.without_terminator()) builder.clone(op, copies);
    SmallVector<Value> results;
    for (Value result : body.getTerminator()->getOperands()) results.push_back(copies.lookup(result));
    builder.create<func::ReturnOp>(node.getLoc(), results);
  }

  // The region that is all of the function, or null with the reason.
  tx::DispatchOp region(std::string& reason) {
    SmallVector<Attribute> log;
    (void)applyPatternsAndFoldGreedily(function_, FrozenRewritePatternSet(RewritePatternSet(function_.getContext())));
    if (failed(form_regions(function_, most_bindings, log))) return reason = "it does not compile by itself", nullptr;
    Block& block = function_.getBody().front();
    SmallVector<tx::DispatchOp> regions(block.getOps<tx::DispatchOp>());
    if (regions.size() != 1) {
      SmallVector<StringRef> roots;
      for (tx::DispatchOp one : regions) roots.push_back(one.getName().rsplit('.').second);
      reason =
          regions.empty() ? "it needs no kernel" : "it takes " + std::to_string(regions.size()) + " kernels: " + llvm::join(roots, ", ");
      return nullptr;
    }
    auto is_argument = [](Value input) { return llvm::isa<BlockArgument>(input); };
    if (!llvm::all_of(regions[0].getInputs(), is_argument) || block.getTerminator()->getOperands() != regions[0].getResults()) {
      reason = "its kernel reads or writes tensors of other shapes than the node's";
      return nullptr;
    }
    return regions[0];
  }

 private:
  OwningOpRef<ModuleOp> module_;
  func::FuncOp function_;
};

// The kernel's body over the node's own operands, in their order.
void take_body(tx::DispatchOp node, tx::DispatchOp region) {
  Block& old_body = node.getBody().front();
  for (Operation& op : llvm::make_early_inc_range(llvm::reverse(old_body))) op.erase();
  IRMapping copies;
  for (auto [input, argument] : llvm::zip_equal(region.getInputs(), region.getBody().getArguments())) {
    copies.map(argument, old_body.getArgument(llvm::cast<BlockArgument>(input).getArgNumber()));
  }
  OpBuilder builder = OpBuilder::atBlockEnd(&old_body);
  for (Operation& op : region.getBody().front()) builder.clone(op, copies);
}

// Plain ops, placed where the node was.
void inline_body(tx::DispatchOp node) {
  OpBuilder builder(node);
  IRMapping copies;
  Block& body = node.getBody().front();
  copies.map(body.getArguments(), node.getInputs());
  for (Operation& op : body.without_terminator()) {
    Operation* copy = builder.clone(op, copies);
    for (StringRef name : {StringRef(tx::place_attr), StringRef(tx::placed_by_attr)}) {
      if (Attribute placed = node->getAttr(name)) copy->setAttr(name, placed);
    }
  }
  for (auto [result, value] : llvm::zip_equal(node.getResults(), body.getTerminator()->getOperands())) {
    result.replaceAllUsesWith(copies.lookup(value));
  }
  node.erase();
}

std::string why_own_only(tx::DispatchOp node) {
  if (llvm::all_of(node.getInputs(), is_constant_expression)) return "it is computed when the module is loaded";
  if (reads_packed(node)) return "its kernel reads weights in an order of its own";
  Alone alone(node);
  std::string reason;
  if (tx::DispatchOp region = alone.region(reason)) take_body(node, region);
  return reason;
}

struct SettleAlternatives : PassWrapper<SettleAlternatives, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SettleAlternatives)
  StringRef getArgument() const final { return "heddle-settle-alternatives"; }
  StringRef getDescription() const final {
    return "dispatch(x) or Softmax { softmax(x) }  ->  the same; dispatch(x, constant w) or MatMul { matmul(x, w) }  ->  matmul(x, w)";
  }
  void runOnOperation() override {
    SmallVector<tx::DispatchOp> nodes;
    getOperation().walk([&](tx::DispatchOp node) { nodes.push_back(node); });
    for (tx::DispatchOp node : nodes) {
      tx::OperationAttr operation = node.getAlternativeAttr();
      std::string reason = operation ? why_own_only(node) : "";
      if (reason.empty()) continue;
      auto name = llvm::dyn_cast<NameLoc>(node.getLoc());
      tx::note_own_only(getOperation(), name ? name.getName().getValue() : "", operation.describe(), reason);
      inline_body(node);
    }
  }
};

}  // namespace

std::unique_ptr<Pass> settle_alternatives() {
  return std::make_unique<SettleAlternatives>();
}

}  // namespace heddle::passes
