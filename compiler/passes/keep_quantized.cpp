// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-keep-quantized: contractions and look-ups read quantized constants as they are stored, and the scale is applied to the result. Thus a
// weight of 8 bits is never expanded to 32. Products of f32 read matrices of floats of 16 bits as they are.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "compiler/passes/constant_expression.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// One element, or one for each index of a dimension.
struct Factor {
  Value value;               // of rank 0 or 1; null: `number` is used
  DenseElementsAttr number;  // if `value` is null
  std::optional<int64_t> dimension;
};

// (integers - zero) * scale
struct Quantized {
  Value integers;  // before `moves`
  std::optional<Factor> zero, scale;
  SmallVector<Operation*> moves;  // transposes and reshapes of the integers, in order
};

std::optional<Factor> read_factor(Value value) {
  if (auto broadcast = value.getDefiningOp<tx::BroadcastOp>()) {
    RankedTensorType from = tx::tensor(broadcast.getInput());
    if (from.getRank() == 0) return Factor{broadcast.getInput(), {}, {}};
    if (from.getRank() == 1) return Factor{broadcast.getInput(), {}, broadcast.getDimensions()[0]};
    return {};
  }
  auto constant = value.getDefiningOp<tx::ConstantOp>();
  auto splat = constant ? llvm::dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (!splat) return {};
  return Factor{{}, splat.resizeSplat(RankedTensorType::get({}, tx::element_of(value))), {}};
}

// The position of a dimension after the op; nothing if it is split or merged.
std::optional<int64_t> moved_dimension(Operation* op, int64_t dimension) {
  if (auto transpose = llvm::dyn_cast<tx::TransposeOp>(op)) {
    return llvm::find(transpose.getPermutation(), dimension) - transpose.getPermutation().begin();
  }
  ArrayRef<int64_t> from = tx::tensor(op->getOperand(0)).getShape(), to = tx::tensor(op->getResult(0)).getShape();
  auto elements = [](ArrayRef<int64_t> shape) { return ShapedType::getNumElements(shape); };
  for (size_t d = 0; d < to.size(); ++d) {
    if (to[d] == from[dimension] && elements(to.take_front(d)) == elements(from.take_front(dimension))) return static_cast<int64_t>(d);
  }
  return {};
}

std::optional<Quantized> read_quantized(Value value) {
  Operation* op = value.getDefiningOp();
  if (!op || !llvm::isa<FloatType>(tx::element_of(value)) || !tx::tensor(value).hasStaticShape()) return {};
  if (llvm::isa<tx::CastOp>(op)) {
    Value from = op->getOperand(0);
    if (llvm::isa<FloatType>(tx::element_of(from))) return read_quantized(from);
    if (!llvm::isa<IntegerType>(tx::element_of(from)) || !is_constant_expression(from)) return {};
    // f16 and bf16 do not represent every integer of 16 bits.
    const unsigned bits = tx::element_of(from).getIntOrFloatBitWidth(), own = tx::element_of(value).getIntOrFloatBitWidth();
    if (bits != 8 && (bits != 16 || own < 32)) return {};
    return Quantized{from, {}, {}, {}};
  }
  if (llvm::isa<tx::TransposeOp, tx::ReshapeOp>(op)) {
    auto quantized = read_quantized(op->getOperand(0));
    if (!quantized) return {};
    for (std::optional<Factor>* factor : {&quantized->zero, &quantized->scale}) {
      if (!*factor || !(*factor)->dimension) continue;
      (*factor)->dimension = moved_dimension(op, *(*factor)->dimension);
      if (!(*factor)->dimension) return {};
    }
    quantized->moves.push_back(op);
    return quantized;
  }
  if (!llvm::isa<tx::SubOp, tx::MulOp>(op) || !is_constant_expression(op->getOperand(1))) return {};
  auto quantized = read_quantized(op->getOperand(0));
  auto factor = quantized ? read_factor(op->getOperand(1)) : std::nullopt;
  if (!factor || quantized->scale || (llvm::isa<tx::SubOp>(op) && quantized->zero)) return {};
  (llvm::isa<tx::SubOp>(op) ? quantized->zero : quantized->scale) = factor;
  return quantized;
}

// The integers after their moves.
Value moved_integers(const Quantized& quantized, PatternRewriter& rewriter) {
  Value value = quantized.integers;
  for (Operation* move : quantized.moves) {
    OperationState state(move->getLoc(), move->getName(), value,
                         tx::with_element_type(tx::tensor(move->getResult(0)), tx::element_of(value)), move->getAttrs());
    value = rewriter.create(state)->getResult(0);
  }
  return value;
}

Value converted(PatternRewriter& rewriter, Location loc, Value value, Type element) {
  if (tx::element_of(value) == element) return value;
  return rewriter.create<tx::CastOp>(loc, tx::with_element_type(tx::tensor(value), element), value);
}

Value made(PatternRewriter& rewriter, Location loc, const Factor& factor, Type element) {
  Value value = factor.value ? factor.value : rewriter.create<tx::ConstantOp>(loc, factor.number.getType(), factor.number);
  return converted(rewriter, loc, value, element);
}

Value spread(PatternRewriter& rewriter, Location loc, Value value, RankedTensorType like, ArrayRef<int64_t> dimensions) {
  return rewriter.create<tx::BroadcastOp>(loc, tx::with_element_type(like, tx::element_of(value)), value, dimensions);
}

// contraction(x, (cast(w) - broadcast z) * broadcast s)  ->  contraction(x, w - z) * broadcast s. A scale per row of a matrix is applied to x.
template <typename OpT>
struct ReadWeights : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter& rewriter) const override {
    Value lhs = op->getOperand(0), weights = op->getOperand(1);
    if (op.getPackedShape() || tx::element_of(lhs) != tx::element_of(weights) || tx::element_of(lhs).isF64()) return failure();
    auto quantized = read_quantized(weights);
    if (!quantized) return failure();
    int64_t rank = tx::tensor(weights).getRank(), columns = rank - 1, depth = -1;
    if (auto matmul = llvm::dyn_cast<tx::MatmulOp>(op.getOperation())) {
      depth = rank - 2;
      if (matmul.getTransposeLhs()) return failure();
      if (matmul.getTransposeRhs()) std::swap(columns, depth);
    }
    std::optional<int64_t> across = quantized->scale ? quantized->scale->dimension : std::nullopt;
    bool is_by_row = across == depth && tx::element_of(lhs).isF32();
    if (across && across != columns && !is_by_row) return failure();
    if (quantized->zero && quantized->zero->dimension.value_or(columns) != columns) return failure();

    Location loc = op.getLoc();
    rewriter.setInsertionPoint(op);
    Type f32 = rewriter.getF32Type();
    Value integers = moved_integers(*quantized, rewriter), zero, scale;
    if (quantized->zero) {
      auto vector = RankedTensorType::get({tx::tensor(weights).getDimSize(columns)}, f32);
      zero = made(rewriter, loc, *quantized->zero, f32);
      if (!quantized->zero->dimension) zero = spread(rewriter, loc, zero, vector, {});
    }
    if (quantized->scale) scale = made(rewriter, loc, *quantized->scale, f32);
    if (is_by_row) {
      RankedTensorType type = tx::tensor(lhs);
      lhs = rewriter.create<tx::MulOp>(loc, type, lhs, spread(rewriter, loc, scale, type, {type.getRank() - 1}));
    }
    auto copy = llvm::cast<OpT>(rewriter.clone(*op));
    copy->setOperand(0, lhs);
    copy->setOperand(1, integers);
    if (zero) copy.getZeroMutable().assign(zero);
    // The sums are far larger than the scaled results, so f16 may not have the range for them.
    RankedTensorType type = tx::with_element_type(tx::tensor(op.getResult()), f32);
    copy.getResult().setType(type);
    Value result = copy.getResult();
    if (scale && !is_by_row) {
      SmallVector<int64_t> dimensions;
      if (across) dimensions.push_back(type.getRank() - 1);
      result = rewriter.create<tx::MulOp>(loc, type, result, spread(rewriter, loc, scale, type, dimensions));
    }
    rewriter.replaceOp(op, converted(rewriter, loc, result, tx::element_of(op.getResult())));
    return success();
  }
};

// gather((cast(w) - broadcast z) * broadcast s, i)  ->  (cast(gather(w, i)) - broadcast z) * broadcast s
struct ReadTable : OpRewritePattern<tx::GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::GatherOp op, PatternRewriter& rewriter) const override {
    auto quantized = read_quantized(op.getInput());
    if (!quantized) return failure();
    Location loc = op.getLoc();
    rewriter.setInsertionPoint(op);
    RankedTensorType type = tx::tensor(op.getResult());
    Type wide = type.getElementType().isF64() ? Type(rewriter.getF64Type()) : rewriter.getF32Type();
    auto axis = static_cast<int64_t>(op.getAxis()), indices = tx::tensor(op.getIndices()).getRank();
    auto gather = [&](Value from, RankedTensorType to, int64_t at) {
      return rewriter.create<tx::GatherOp>(loc, tx::with_element_type(to, tx::element_of(from)), from, op.getIndices(), at);
    };
    auto factor = [&](const Factor& one) {
      Value value = made(rewriter, loc, one, wide);
      if (!one.dimension) return spread(rewriter, loc, value, type, {});
      if (*one.dimension != axis) return spread(rewriter, loc, value, type, *one.dimension + (*one.dimension > axis ? indices - 1 : 0));
      SmallVector<int64_t> dimensions;
      for (int64_t d = 0; d < indices; ++d) dimensions.push_back(axis + d);
      return spread(rewriter, loc, gather(value, tx::tensor(op.getIndices()), 0), type, dimensions);
    };
    Value result = converted(rewriter, loc, gather(moved_integers(*quantized, rewriter), type, axis), wide);
    if (quantized->zero) result = rewriter.create<tx::SubOp>(loc, result.getType(), result, factor(*quantized->zero));
    if (quantized->scale) result = rewriter.create<tx::MulOp>(loc, result.getType(), result, factor(*quantized->scale));
    rewriter.replaceOp(op, converted(rewriter, loc, result, type.getElementType()));
    return success();
  }
};

// matmul(x, cast(w)) of f32 and constant floats of 16 bits  ->  matmul(x, w)
struct ReadHalves : OpRewritePattern<tx::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::MatmulOp op, PatternRewriter& rewriter) const override {
    if (op.getPackedShape() || op.getBlocks() || op.getZero() || !tx::element_of(op.getLhs()).isF32() || op.getTransposeLhs())
      return failure();
    SmallVector<Operation*> moves;
    Value weights = op.getRhs();
    while (Operation* move = weights.getDefiningOp()) {
      if (!llvm::isa<tx::TransposeOp, tx::ReshapeOp>(move)) break;
      moves.push_back(move);
      weights = move->getOperand(0);
    }
    auto cast = weights.getDefiningOp<tx::CastOp>();
    if (tx::tensor(op.getRhs()).getRank() != 2 || !tx::element_of(op.getRhs()).isF32() || !cast) return failure();
    Type stored = tx::element_of(cast.getInput());
    if (!(stored.isF16() || stored.isBF16()) || !is_constant_expression(cast.getInput())) return failure();
    rewriter.setInsertionPoint(op);
    Value value = cast.getInput();
    for (Operation* move : llvm::reverse(moves)) {
      OperationState state(move->getLoc(), move->getName(), value, tx::with_element_type(tx::tensor(move->getResult(0)), stored),
                           move->getAttrs());
      value = rewriter.create(state)->getResult(0);
    }
    rewriter.modifyOpInPlace(op, [&] { op.getRhsMutable().assign(value); });
    return success();
  }
};

struct KeepQuantized : PassWrapper<KeepQuantized, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KeepQuantized)
  explicit KeepQuantized(bool keeps_halves) : keeps_halves_(keeps_halves) {}
  StringRef getArgument() const final { return "heddle-keep-quantized"; }
  StringRef getDescription() const final {
    return "conv(x, (cast(w) - broadcast z) * broadcast s)  ->  conv(x, w - z) * broadcast s for constant w of 8 or 16 bits";
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ReadWeights<tx::ConvOp>, ReadWeights<tx::MatmulOp>, ReadTable>(&getContext());
    if (keeps_halves_) patterns.add<ReadHalves>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) signalPassFailure();
  }

 private:
  const bool keeps_halves_;
};

}  // namespace

std::unique_ptr<Pass> keep_quantized(bool keeps_halves) {
  return std::make_unique<KeepQuantized>(keeps_halves);
}

}  // namespace heddle::passes
