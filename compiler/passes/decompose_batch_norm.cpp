// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-decompose-batch-norm: inference batch normalization becomes one multiplication and one addition per channel.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::passes {
namespace {

Value splat(OpBuilder& builder, Location loc, RankedTensorType type, double value) {
  return builder.create<tx::ConstantOp>(loc, type, SplatElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), value)));
}

struct Decompose : OpRewritePattern<tx::BatchNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::BatchNormOp op, PatternRewriter& rewriter) const override {
    Location loc = op.getLoc();
    auto type = llvm::cast<RankedTensorType>(op.getType());
    auto vector = llvm::cast<RankedTensorType>(op.getScale().getType());
    Value epsilon = splat(rewriter, loc, vector, op.getEpsilon().convertToDouble());
    Value shifted = rewriter.create<tx::AddOp>(loc, vector, op.getVariance(), epsilon);
    // sqrt and a division, not rsqrt: this runs once, at load, and must not lose precision
    Value deviation = rewriter.create<tx::SqrtOp>(loc, vector, shifted);
    Value factor = rewriter.create<tx::DivOp>(loc, vector, op.getScale(), deviation);
    Value moved = rewriter.create<tx::MulOp>(loc, vector, op.getMean(), factor);
    Value offset = rewriter.create<tx::SubOp>(loc, vector, op.getBias(), moved);
    SmallVector<int64_t> last{type.getRank() - 1};
    Value factors = rewriter.create<tx::BroadcastOp>(loc, type, factor, last);
    Value offsets = rewriter.create<tx::BroadcastOp>(loc, type, offset, last);
    Value scaled = rewriter.create<tx::MulOp>(loc, type, op.getInput(), factors);
    rewriter.replaceOpWithNewOp<tx::AddOp>(op, type, scaled, offsets);
    return success();
  }
};

struct DecomposeBatchNorm : PassWrapper<DecomposeBatchNorm, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DecomposeBatchNorm)
  StringRef getArgument() const final { return "heddle-decompose-batch-norm"; }
  StringRef getDescription() const final {
    return "batch_norm(x, s, b, m, v)  ->  f = s / sqrt(v + e); add(mul(x, broadcast f), broadcast(b - m * f))";
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<Decompose>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> decompose_batch_norm() {
  return std::make_unique<DecomposeBatchNorm>();
}

}  // namespace heddle::passes
