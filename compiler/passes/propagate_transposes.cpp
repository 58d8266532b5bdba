// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-propagate-transposes: moves transposes down through the graph until they meet their inverse or the end, so that a model that is written
// channels-first runs channels-last throughout.
#include "compiler/passes/passes.h"

#include "compiler/ir/tx.h"
#include "compiler/passes/constant_expression.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace heddle::passes {
namespace {

SmallVector<int64_t> inverse(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> result(permutation.size());
  for (auto [i, p] : llvm::enumerate(permutation)) result[p] = i;
  return result;
}

RankedTensorType permuted(RankedTensorType type, ArrayRef<int64_t> permutation) {
  SmallVector<AffineExpr> from = tx::extents(type), to;
  for (int64_t p : permutation) to.push_back(from[p]);
  return tx::tensor_type(to, type.getElementType());
}

Value transposed(PatternRewriter& rewriter, Location loc, Value value, ArrayRef<int64_t> permutation) {
  return rewriter.createOrFold<tx::TransposeOp>(loc, permuted(llvm::cast<RankedTensorType>(value.getType()), permutation), value,
                                                permutation);
}

// A transpose of a constant expression is not moved: it is computed at load, where it is.
tx::TransposeOp movable_transpose(Value value) {
  auto transpose = value.getDefiningOp<tx::TransposeOp>();
  return transpose && !is_constant_expression(value) ? transpose : tx::TransposeOp();
}

// The dimensions of transpose(broadcast) that the dimensions of the input other than 1 become; nothing if they would be in another order.
std::optional<SmallVector<int64_t>> broadcast_dimensions(tx::BroadcastOp broadcast, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> back = inverse(permutation), kept;
  auto from = llvm::cast<RankedTensorType>(broadcast.getInput().getType());
  for (auto [i, d] : llvm::enumerate(broadcast.getDimensions())) {
    if (from.getDimSize(i) != 1) kept.push_back(back[d]);
  }
  return llvm::is_sorted(kept) ? std::optional(kept) : std::nullopt;
}

// From an image with its channels last to one with them first, as it is behind a convolution of a model that is written so.
bool moves_channels_first(ArrayRef<int64_t> permutation) {
  const int64_t rank = static_cast<int64_t>(permutation.size());
  if (rank < 4 || permutation[0] != 0 || permutation[1] != rank - 1) return false;
  for (int64_t d = 2; d < rank; ++d) {
    if (permutation[d] != d - 1) return false;
  }
  return true;
}

// The operand transpose that an op with several operands can take out: every other operand has the same one, is constant, or, if an image's channels
// move, is a broadcast that can be into transposed dimensions (IntoBroadcast). Other transposes stay where attention expects them.
tx::TransposeOp common_transpose(Operation* op) {
  tx::TransposeOp found;
  SmallVector<tx::BroadcastOp> broadcasts;
  for (Value operand : op->getOperands()) {
    auto broadcast = operand.getDefiningOp<tx::BroadcastOp>();
    if (auto transpose = movable_transpose(operand)) {
      if (found && found.getPermutation() != transpose.getPermutation()) return {};
      found = transpose;
    } else if (!is_constant_expression(operand)) {
      if (!broadcast) return {};
      broadcasts.push_back(broadcast);
    }
  }
  if (!found || broadcasts.empty()) return found;
  SmallVector<int64_t> back = inverse(found.getPermutation());
  bool can_move = moves_channels_first(found.getPermutation()) &&
                  llvm::all_of(broadcasts, [&](tx::BroadcastOp one) { return broadcast_dimensions(one, back).has_value(); });
  return can_move ? found : tx::TransposeOp();
}

// elementwise(transpose(a), transpose(b), constant c)  ->  transpose(elementwise(a, b, transpose'(c))); a transfer to another slot counts as
// element-wise
struct ThroughElementwise : RewritePattern {
  explicit ThroughElementwise(MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation* op, PatternRewriter& rewriter) const override {
    if (!llvm::isa<tx::ConcatOp, tx::TransferOp>(op) && !tx::is_elementwise(op)) return failure();
    tx::TransposeOp found = common_transpose(op);
    if (!found) return failure();
    SmallVector<int64_t> permutation(found.getPermutation()), back = inverse(permutation);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      auto transpose = movable_transpose(operand);
      operands.push_back(transpose ? transpose.getInput() : transposed(rewriter, op->getLoc(), operand, back));
    }
    auto type = llvm::cast<RankedTensorType>(op->getResult(0).getType());
    OperationState state(op->getLoc(), op->getName(), operands, {permuted(type, back)}, op->getAttrs());
    Operation* moved = rewriter.create(state);
    if (auto moved_concat = llvm::dyn_cast<tx::ConcatOp>(moved)) moved_concat.setAxis(permutation[moved_concat.getAxis()]);
    rewriter.replaceOpWithNewOp<tx::TransposeOp>(op, type, moved->getResult(0), permutation);
    return success();
  }
};

// transpose(broadcast(v))  ->  broadcast(v) with the dimensions renamed, where their order allows it
struct IntoBroadcast : OpRewritePattern<tx::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::TransposeOp op, PatternRewriter& rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<tx::BroadcastOp>();
    if (!broadcast) return failure();
    auto dimensions = broadcast_dimensions(broadcast, op.getPermutation());
    if (!dimensions) return failure();
    // a broadcast lists increasing dimensions: unit dimensions, which may be out of order, are removed by a reshape
    auto from = llvm::cast<RankedTensorType>(broadcast.getInput().getType());
    SmallVector<AffineExpr> kept_extents, from_extents = tx::extents(from);
    for (int64_t i = 0; i < from.getRank(); ++i) {
      if (from.getDimSize(i) != 1) kept_extents.push_back(from_extents[i]);
    }
    Value input = broadcast.getInput();
    if (dimensions->size() != static_cast<size_t>(from.getRank())) {
      input = rewriter.createOrFold<tx::ReshapeOp>(op.getLoc(), tx::tensor_type(kept_extents, from.getElementType()), input);
    }
    rewriter.replaceOpWithNewOp<tx::BroadcastOp>(op, op.getType(), input, *dimensions);
    return success();
  }
};

// A transpose that moves only unit dimensions is a reshape.
struct UnitTranspose : OpRewritePattern<tx::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::TransposeOp op, PatternRewriter& rewriter) const override {
    auto from = llvm::cast<RankedTensorType>(op.getInput().getType());
    SmallVector<int64_t> order;
    for (int64_t p : op.getPermutation()) {
      if (from.getDimSize(p) != 1) order.push_back(p);
    }
    if (!llvm::is_sorted(order)) return failure();
    rewriter.replaceOpWithNewOp<tx::ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};

// reduce(transpose(x))  ->  transpose'(reduce(x)) over the original axes
struct ThroughReduce : OpRewritePattern<tx::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::ReduceOp op, PatternRewriter& rewriter) const override {
    auto transpose = movable_transpose(op.getInput());
    if (!transpose) return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    SmallVector<int64_t> axes;
    for (int64_t axis : op.getAxes()) axes.push_back(permutation[axis]);
    llvm::sort(axes);
    auto source = llvm::cast<RankedTensorType>(transpose.getInput().getType());
    SmallVector<AffineExpr> source_extents = tx::extents(source), kept_extents;
    SmallVector<int64_t> position(source.getRank(), -1);  // of a kept source dimension in the reduced tensor
    for (int64_t i = 0; i < source.getRank(); ++i) {
      if (llvm::is_contained(axes, i)) continue;
      position[i] = kept_extents.size();
      kept_extents.push_back(source_extents[i]);
    }
    SmallVector<int64_t> rest;
    for (int64_t p : permutation) {
      if (position[p] >= 0) rest.push_back(position[p]);
    }
    Value reduced = rewriter.create<tx::ReduceOp>(op.getLoc(), tx::tensor_type(kept_extents, source.getElementType()), op.getKind(),
                                                  transpose.getInput(), axes);
    rewriter.replaceOpWithNewOp<tx::TransposeOp>(op, op.getType(), reduced, rest);
    return success();
  }
};

// slice and pad have values per dimension, which are permuted as well.
template <typename OpT>
struct ThroughPerDimension : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter& rewriter) const override {
    auto transpose = movable_transpose(op.getInput());
    if (!transpose) return failure();
    SmallVector<int64_t> permutation(transpose.getPermutation()), back = inverse(permutation);
    auto type = llvm::cast<RankedTensorType>(op.getType());
    OperationState state(op.getLoc(), op->getName(), {transpose.getInput()}, {permuted(type, back)}, op->getAttrs());
    for (NamedAttribute& attribute : state.attributes) {
      auto values = llvm::dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
      if (!values) continue;
      SmallVector<int64_t> moved;
      for (int64_t b : back) moved.push_back(values[b]);
      attribute.setValue(rewriter.getDenseI64ArrayAttr(moved));
    }
    Operation* moved = rewriter.create(state);
    rewriter.template replaceOpWithNewOp<tx::TransposeOp>(op, type, moved->getResult(0), permutation);
    return success();
  }
};

struct ThroughSoftmax : OpRewritePattern<tx::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::SoftmaxOp op, PatternRewriter& rewriter) const override {
    auto transpose = movable_transpose(op.getInput());
    if (!transpose) return failure();
    Value inner = rewriter.create<tx::SoftmaxOp>(op.getLoc(), transpose.getInput().getType(), transpose.getInput(),
                                                 transpose.getPermutation()[op.getAxis()], op.getLog());
    rewriter.replaceOpWithNewOp<tx::TransposeOp>(op, op.getType(), inner, transpose.getPermutation());
    return success();
  }
};

// Divides both sides of a reshape into groups of dimensions with equal element counts; empty if there is no such division in which one side of
// each group is a single dimension.
struct DimGroup {
  int64_t from_begin, from_end, to_begin, to_end;
};
SmallVector<DimGroup> reshape_groups(RankedTensorType from, RankedTensorType to) {
  SmallVector<AffineExpr> a = tx::extents(from), b = tx::extents(to);
  SmallVector<DimGroup> groups;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    DimGroup group{static_cast<int64_t>(i), 0, static_cast<int64_t>(j), 0};
    if (i == a.size() || j == b.size()) return {};
    if (a[i] == b[j]) {
      ++i, ++j;
    } else {
      auto x = llvm::dyn_cast<AffineConstantExpr>(a[i++]), y = llvm::dyn_cast<AffineConstantExpr>(b[j++]);
      if (!x || !y) return {};
      int64_t left = x.getValue(), right = y.getValue();
      while (left != right) {
        bool more_left = left < right;
        if (more_left ? i == a.size() : j == b.size()) return {};
        auto next = llvm::dyn_cast<AffineConstantExpr>(more_left ? a[i++] : b[j++]);
        if (!next || next.getValue() == 0) return {};
        (more_left ? left : right) *= next.getValue();
      }
    }
    group.from_end = i;
    group.to_end = j;
    if (group.from_end - group.from_begin != 1 && group.to_end - group.to_begin != 1) return {};
    groups.push_back(group);
  }
  return groups;
}

// reshape(transpose(x)) that splits dimensions  ->  transpose(reshape(x)); that merges dimensions which the transpose left adjacent, in any
// order  ->  transpose(reshape(transpose within the groups (x)))
struct ThroughReshape : OpRewritePattern<tx::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tx::ReshapeOp op, PatternRewriter& rewriter) const override {
    auto transpose = movable_transpose(op.getInput());
    if (!transpose) return failure();
    auto middle = llvm::cast<RankedTensorType>(transpose.getType());
    auto source = llvm::cast<RankedTensorType>(transpose.getInput().getType());
    auto to = llvm::cast<RankedTensorType>(op.getType());
    SmallVector<DimGroup> groups = reshape_groups(middle, to);
    if (groups.empty()) return failure();
    ArrayRef<int64_t> permutation = transpose.getPermutation();

    // the order of the groups in the source: by the smallest source dimension of each
    struct Placed {
      int64_t first;  // smallest source dimension
      unsigned group;
    };
    SmallVector<Placed> order;
    bool inner_moves = false;
    for (auto [g, group] : llvm::enumerate(groups)) {
      SmallVector<int64_t> dims(permutation.begin() + group.from_begin, permutation.begin() + group.from_end);
      inner_moves |= !llvm::is_sorted(dims);
      SmallVector<int64_t> sorted(dims);
      llvm::sort(sorted);
      for (size_t k = 1; k < sorted.size(); ++k) {
        if (sorted[k] != sorted[k - 1] + 1) return failure();  // merges dimensions that are not adjacent in the source
      }
      order.push_back({sorted.front(), static_cast<unsigned>(g)});
    }
    llvm::sort(order, [](const Placed& x, const Placed& y) { return x.first < y.first; });
    bool moves = false;
    for (auto [k, placed] : llvm::enumerate(order)) moves |= placed.group != k;
    if (!moves) return failure();  // only moves inside groups: no gain

    Value value = transpose.getInput();
    if (inner_moves) {
      SmallVector<int64_t> inner;
      for (const Placed& placed : order) {
        const DimGroup& group = groups[placed.group];
        inner.append(permutation.begin() + group.from_begin, permutation.begin() + group.from_end);
      }
      value = transposed(rewriter, op.getLoc(), value, inner);
    }
    SmallVector<AffineExpr> to_extents = tx::extents(to), moved_extents;
    SmallVector<int64_t> at(to.getRank());  // index of a result dimension in the moved reshape
    for (const Placed& placed : order) {
      const DimGroup& group = groups[placed.group];
      for (int64_t d = group.to_begin; d < group.to_end; ++d) {
        at[d] = moved_extents.size();
        moved_extents.push_back(to_extents[d]);
      }
    }
    Value reshaped = rewriter.create<tx::ReshapeOp>(op.getLoc(), tx::tensor_type(moved_extents, source.getElementType()), value);
    rewriter.replaceOpWithNewOp<tx::TransposeOp>(op, to, reshaped, at);
    return success();
  }
};

struct PropagateTransposes : PassWrapper<PropagateTransposes, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PropagateTransposes)
  StringRef getArgument() const final { return "heddle-propagate-transposes"; }
  StringRef getDescription() const final {
    return "transpose^-1(relu(transpose(conv)))  ->  relu(conv), also through concat, reduce, slice, pad, softmax and reshapes that split "
           "or merge";
  }
  void runOnOperation() override {
    MLIRContext* context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<ThroughElementwise, IntoBroadcast, UnitTranspose, ThroughReduce, ThroughPerDimension<tx::SliceOp>,
                 ThroughPerDimension<tx::PadOp>, ThroughSoftmax, ThroughReshape>(context);
    GreedyRewriteConfig config;
    config.maxIterations = GreedyRewriteConfig::kNoLimit;
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns), config))) signalPassFailure();
  }
};

}  // namespace

std::unique_ptr<Pass> propagate_transposes() {
  return std::make_unique<PropagateTransposes>();
}

}  // namespace heddle::passes
