// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-fold-scales: per-channel constant factors go into the filter of the convolution or matmul that they follow, and per-channel additions
// are merged, so that a contraction is followed by a single bias.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "compiler/passes/constant_expression.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::passes {
namespace {

Value broadcast_last(PatternRewriter& rewriter, Location loc, RankedTensorType type, Value vector) {
  return rewriter.create<tx::BroadcastOp>(loc, type, vector, SmallVector<int64_t>{type.getRank() - 1});
}

// The operands of a commutative op as (other, channel vector), or a null vector.
template <typename OpT>
std::pair<Value, Value> split_channel_operand(OpT op) {
  if (Value vector = channel_vector(op.getRhs())) return {op.getLhs(), vector};
  if (Value vector = channel_vector(op.getLhs())) return {op.getRhs(), vector};
  return {};
}

// mul(contraction(x, w), broadcast s)  ->  contraction(x, mul(w, broadcast s))
struct ScaleIntoFilter : OpRewritePattern<tx::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::MulOp op, PatternRewriter& rewriter) const override {
    auto [value, scale] = split_channel_operand(op);
    if (!scale || !value.hasOneUse()) return failure();
    Operation* root = value.getDefiningOp();
    Value filter;
    if (auto conv = llvm::dyn_cast_or_null<tx::ConvOp>(root)) filter = conv.getFilter();
    if (auto matmul = llvm::dyn_cast_or_null<tx::MatmulOp>(root)) {
      if (!matmul.getTransposeRhs()) filter = matmul.getRhs();
    }
    // quantized weights, and those of fewer bits than the products, stay as they are stored
    if (!filter || !is_constant_expression(filter) || tx::element_of(filter) != tx::element_of(op.getResult())) return failure();
    auto type = llvm::cast<RankedTensorType>(filter.getType());
    rewriter.setInsertionPoint(op);
    Value factors = broadcast_last(rewriter, op.getLoc(), type, scale);
    Value scaled = rewriter.create<tx::MulOp>(op.getLoc(), type, filter, factors);
    Operation* copy = rewriter.clone(*root);
    copy->setOperand(1, scaled);
    rewriter.replaceOp(op, copy->getResults());
    return success();
  }
};

// mul(add(x, broadcast b), broadcast s)  ->  add(mul(x, broadcast s), broadcast(b * s))
struct ScaleBeforeAdd : OpRewritePattern<tx::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::MulOp op, PatternRewriter& rewriter) const override {
    auto [value, scale] = split_channel_operand(op);
    auto add = scale && value.hasOneUse() ? value.getDefiningOp<tx::AddOp>() : tx::AddOp();
    if (!add) return failure();
    auto [inner, bias] = split_channel_operand(add);
    if (!bias) return failure();
    Location loc = op.getLoc();
    auto type = llvm::cast<RankedTensorType>(op.getType());
    Value scaled_bias = rewriter.create<tx::MulOp>(loc, bias.getType(), bias, scale);
    Value scaled = rewriter.create<tx::MulOp>(loc, type, inner, broadcast_last(rewriter, loc, type, scale));
    rewriter.replaceOpWithNewOp<tx::AddOp>(op, type, scaled, broadcast_last(rewriter, loc, type, scaled_bias));
    return success();
  }
};

// op(op(x, broadcast a), broadcast b)  ->  op(x, broadcast(op(a, b))) for mul and add
template <typename OpT>
struct MergeChannelOps : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter& rewriter) const override {
    auto [value, outer] = split_channel_operand(op);
    auto below = outer && value.hasOneUse() ? value.template getDefiningOp<OpT>() : OpT();
    if (!below) return failure();
    auto [inner, vector] = split_channel_operand(below);
    if (!vector) return failure();
    auto type = llvm::cast<RankedTensorType>(op.getType());
    Value merged = rewriter.create<OpT>(op.getLoc(), vector.getType(), vector, outer);
    rewriter.replaceOpWithNewOp<OpT>(op, type, inner, broadcast_last(rewriter, op.getLoc(), type, merged));
    return success();
  }
};

struct FoldScales : PassWrapper<FoldScales, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldScales)
  StringRef getArgument() const final { return "heddle-fold-scales"; }
  StringRef getDescription() const final {
    return "mul(add(conv(x, w), broadcast b), broadcast s)  ->  add(conv(x, w * broadcast s), broadcast(b * s)) for constant b, s, w";
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ScaleIntoFilter, ScaleBeforeAdd, MergeChannelOps<tx::MulOp>, MergeChannelOps<tx::AddOp>>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> fold_scales() {
  return std::make_unique<FoldScales>();
}

}  // namespace heddle::passes
