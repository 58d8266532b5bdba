// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-fold-casts: whole numbers that are cast to an integer type and back are clamped instead. In models with quantized tensors, every layer
// ends that way; without the integers, the whole end of the layer becomes the epilogue of its convolution.
#include "compiler/passes/passes.h"

#include <cmath>

#include "compiler/ir/tx.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// Whether a tensor of floats provably has only whole numbers, infinities and NaN. Sums and products of whole floats are whole, also when
// rounded.
bool is_whole(Value value, int depth = 6) {
  Operation* op = value.getDefiningOp();
  if (!op || depth == 0) return false;
  if (op->hasTrait<tx::Rounds>()) return true;
  if (auto cast = llvm::dyn_cast<tx::CastOp>(op)) return llvm::isa<IntegerType>(tx::element_of(cast.getInput()));
  if (auto constant = llvm::dyn_cast<tx::ConstantOp>(op)) {
    auto elements = llvm::dyn_cast<DenseFPElementsAttr>(constant.getValue());
    return elements && llvm::all_of(elements.getValues<APFloat>(), [](const APFloat& element) { return element.isInteger(); });
  }
  return op->hasTrait<tx::KeepsWhole>() && llvm::all_of(op->getOperands(), [&](Value operand) { return is_whole(operand, depth - 1); });
}

Value splat(PatternRewriter& rewriter, Location loc, RankedTensorType type, double value) {
  auto scalar = RankedTensorType::get({}, type.getElementType());
  auto attribute = SplatElementsAttr::get(scalar, rewriter.getFloatAttr(type.getElementType(), value));
  Value constant = rewriter.create<tx::ConstantOp>(loc, scalar, attribute);
  return rewriter.createOrFold<tx::BroadcastOp>(loc, type, constant, ArrayRef<int64_t>{});
}

// cast(cast(x): f32 -> i8): i8 -> f32  ->  min(max(x, -128), 127) for whole x. NaN stays NaN, where a cast would make it 0.
struct WholePair : OpRewritePattern<tx::CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::CastOp op, PatternRewriter& rewriter) const override {
    auto inner = op.getInput().getDefiningOp<tx::CastOp>();
    if (!inner || inner.getInput().getType() != op.getType()) return failure();
    Value value = inner.getInput();
    auto integer = llvm::dyn_cast<IntegerType>(tx::element_of(inner));
    bool exact = tx::element_of(value).isF32() || tx::element_of(value).isF64();  // f32 and f64 represent every integer of 16 bits
    if (!integer || (integer.getWidth() != 8 && integer.getWidth() != 16) || !exact || !is_whole(value)) return failure();
    Location loc = op.getLoc();
    auto type = llvm::cast<RankedTensorType>(op.getType());
    double low = integer.isUnsigned() ? 0 : -std::ldexp(1.0, integer.getWidth() - 1);
    double high = std::ldexp(1.0, integer.getWidth() - (integer.isUnsigned() ? 0 : 1)) - 1;
    // relu is a max with 0, and cheaper
    Value above = integer.isUnsigned() ? rewriter.create<tx::ReluOp>(loc, type, value).getResult()
                                       : rewriter.create<tx::MaxOp>(loc, type, value, splat(rewriter, loc, type, low)).getResult();
    rewriter.replaceOpWithNewOp<tx::MinOp>(op, type, above, splat(rewriter, loc, type, high));
    return success();
  }
};

struct FoldCasts : PassWrapper<FoldCasts, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldCasts)
  StringRef getArgument() const final { return "heddle-fold-casts"; }
  StringRef getDescription() const final { return "cast(cast(round(x)): f32 -> i8): i8 -> f32  ->  min(max(round(x), -128), 127)"; }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<WholePair>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> fold_casts() {
  return std::make_unique<FoldCasts>();
}

}  // namespace heddle::passes
