// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-move-reshapes: element-wise ops after a contraction get its shape, and reshapes that only divide its dimensions differently move after
// them. The ops are then adjacent and become one kernel. A slice moves after a reshape of the whole tensor, which moves no data, and is then
// adjacent to its reader.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Whether the value is a contraction's result, or computed from one by a few element-wise ops.
bool is_of_contraction(Value value) {
  constexpr size_t most = 64;
  SmallVector<Value> waiting = {value};
  llvm::DenseSet<Operation*> seen;
  while (!waiting.empty() && seen.size() < most) {
    Operation* op = waiting.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second) continue;
    if (tx::is_contraction(op)) return true;
    if (tx::is_elementwise(op)) llvm::append_range(waiting, op->getOperands());
  }
  return false;
}

// f(reshape(x), y)  ->  reshape(f(x, y')), where x is a contraction's result, and y' is y in the shape of x.
struct MoveReshape : RewritePattern {
  explicit MoveReshape(MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    if (!tx::is_elementwise(op)) return failure();
    tx::ReshapeOp moved;
    for (Value operand : op->getOperands()) {
      auto reshape = operand.getDefiningOp<tx::ReshapeOp>();
      if (!reshape && is_of_contraction(operand)) return failure();
      if (reshape && !moved && is_of_contraction(reshape.getInput())) moved = reshape;
    }
    if (!moved) return failure();
    RankedTensorType from = tx::tensor(moved.getInput()), to = tx::tensor(op->getResult(0));
    // All readers must move, or some would be before the reshape and some after it.
    for (Operation* user : moved->getUsers()) {
      bool moves = tx::is_elementwise(user) && llvm::all_of(user->getOperands(), [&](Value operand) { return has_form(operand, from); });
      if (!moves) return failure();
    }
    SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) { return in_form(operand, from, rewriter); });
    OperationState state(op->getLoc(), op->getName(), operands, tx::with_element_type(from, to.getElementType()), op->getAttrs());
    Value result = rewriter.create(state)->getResult(0);
    rewriter.replaceOpWithNewOp<tx::ReshapeOp>(op, to, result);
    return success();
  }

 private:
  // A broadcast is a view without a tensor: a broadcast of one element, or of a vector along the last dimension, has a counterpart of another shape.
  static bool has_form(Value value, RankedTensorType like) {
    auto broadcast = value.getDefiningOp<tx::BroadcastOp>();
    if (!broadcast) return true;
    RankedTensorType input = tx::tensor(broadcast.getInput()), own = tx::tensor(value);
    if (input.getRank() == 0) return true;
    return input.getRank() == 1 && like.getRank() > 0 && broadcast.getDimensions()[0] == own.getRank() - 1 &&
           tx::extents(input)[0] == tx::extents(like).back();
  }

  static Value in_form(Value value, RankedTensorType like, PatternRewriter& rewriter) {
    RankedTensorType type = tx::with_element_type(like, tx::tensor(value).getElementType());
    if (auto reshape = value.getDefiningOp<tx::ReshapeOp>(); reshape && reshape.getInput().getType() == type) return reshape.getInput();
    if (auto broadcast = value.getDefiningOp<tx::BroadcastOp>()) {
      SmallVector<int64_t> dimensions;
      if (!broadcast.getDimensions().empty()) dimensions.push_back(like.getRank() - 1);
      return rewriter.create<tx::BroadcastOp>(value.getLoc(), type, broadcast.getInput(), dimensions);
    }
    auto constant = value.getDefiningOp<tx::ConstantOp>();
    auto splat = constant ? llvm::dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (splat && type.hasStaticShape()) {
      return rewriter.create<tx::ConstantOp>(value.getLoc(), type, SplatElementsAttr::get(type, splat.getSplatValue<Attribute>()));
    }
    return rewriter.createOrFold<tx::ReshapeOp>(value.getLoc(), type, value);
  }
};

// reshape(slice(x))  ->  slice(reshape(x)), where the reshape divides the sliced dimension into pieces, and the slice is of whole pieces.
struct MoveSlice : OpRewritePattern<tx::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tx::ReshapeOp reshape, PatternRewriter& rewriter) const override {
    auto slice = reshape.getInput().getDefiningOp<tx::SliceOp>();
    if (!slice || !slice->hasOneUse() || !llvm::all_of(slice.getStrides(), [](int64_t stride) { return stride == 1; })) return failure();
    SmallVector<AffineExpr> whole = tx::extents(tx::tensor(slice.getInput())), part = tx::extents(tx::tensor(slice.getResult()));
    SmallVector<AffineExpr> to = tx::extents(tx::tensor(reshape.getResult()));
    size_t sliced = part.size();
    for (size_t d = 0; d < part.size(); ++d) {
      if (slice.getStarts()[d] == 0 && whole[d] == part[d]) continue;
      if (sliced != part.size()) return failure();
      sliced = d;
    }
    if (sliced == part.size()) return failure();
    const auto from_extent = tx::static_extent(whole[sliced]), part_extent = tx::static_extent(part[sliced]);
    if (!from_extent || !part_extent) return failure();
    const int64_t start = slice.getStarts()[sliced];
    // The dimension that counts the pieces has as many elements before it as the sliced one.
    for (size_t d = 0; d < to.size(); ++d) {
      const auto pieces = tx::static_extent(to[d]);
      if (!pieces || *pieces <= 1 || *part_extent % *pieces != 0) continue;
      const int64_t piece = *part_extent / *pieces;
      if (piece <= 1 || *from_extent % piece != 0 || start % piece != 0) continue;
      AffineExpr behind = product(ArrayRef(part).drop_front(sliced + 1), rewriter) * piece;
      if (product(ArrayRef(part).take_front(sliced), rewriter) != product(ArrayRef(to).take_front(d), rewriter)) continue;
      if (behind != product(ArrayRef(to).drop_front(d + 1), rewriter)) continue;
      SmallVector<AffineExpr> divided = to;
      divided[d] = rewriter.getAffineConstantExpr(*from_extent / piece);
      SmallVector<int64_t> starts(to.size(), 0), strides(to.size(), 1);
      starts[d] = start / piece;
      Value view = rewriter.createOrFold<tx::ReshapeOp>(reshape.getLoc(), tx::tensor_type(divided, tx::tensor(reshape).getElementType()),
                                                        slice.getInput());
      rewriter.replaceOpWithNewOp<tx::SliceOp>(reshape, reshape.getType(), view, starts, strides);
      return success();
    }
    return failure();
  }

 private:
  static AffineExpr product(ArrayRef<AffineExpr> extents, PatternRewriter& rewriter) {
    AffineExpr result = rewriter.getAffineConstantExpr(1);
    for (AffineExpr extent : extents) result = result * extent;
    return result;
  }
};

struct MoveReshapes : PassWrapper<MoveReshapes, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MoveReshapes)
  StringRef getArgument() const final { return "heddle-move-reshapes"; }
  StringRef getDescription() const final { return "gelu(reshape(matmul(x, w)))  ->  reshape(gelu(matmul(x, w)))"; }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<MoveReshape, MoveSlice>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> move_reshapes() {
  return std::make_unique<MoveReshapes>();
}

}  // namespace heddle::passes
