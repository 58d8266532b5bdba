// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// heddle-divide-folds: a reduction of many elements to few results becomes a reduction of parts, which keep a device busy, and a second one of
// their results.
//
//   tx.reduce sum %x {axes = [0]} : tensor<16777216xf32> -> tensor<f32>
//
// becomes, for a device that 128 results keep busy,
//
//   %parts = tx.reshape %x : tensor<16777216xf32> -> tensor<128x131072xf32>
//   %sums = tx.reduce sum %parts {axes = [1]} : tensor<128x131072xf32> -> tensor<128xf32>
//   tx.reduce sum %sums {axes = [0]} : tensor<128xf32> -> tensor<f32>
//
// Element-wise ops before the reduction are computed per part, so that they stay in one kernel with it. The parts depend only on extents, so a
// reduction gives the same bits each time.
#include "compiler/passes/passes.h"
#include "compiler/passes/slots.h"

#include "compiler/ir/tx.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace heddle::passes {
namespace {

// The smallest part for which the second kernel is worthwhile.
constexpr int64_t smallest_part = 16384;

// A dimension of this extent becomes two: the parts, and the elements of each.
struct Division {
  int64_t dimension, parts, size;

  SmallVector<AffineExpr> extents_of(ArrayRef<AffineExpr> whole) const {
    MLIRContext* context = whole.front().getContext();
    SmallVector<AffineExpr> extents(whole);
    extents[dimension] = getAffineConstantExpr(parts, context);
    extents.insert(extents.begin() + dimension + 1, getAffineConstantExpr(size, context));
    return extents;
  }
};

int64_t count_of(ArrayRef<int64_t> extents) {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return count;
}

// How many workers compute the results: those behind the last reduced dimension are neighbors in memory.
int64_t workers_of(tx::ReduceOp reduce, int64_t results, int64_t neighbors) {
  ArrayRef<int64_t> extents = tx::tensor(reduce.getInput()).getShape();
  int64_t last = -1;
  for (int64_t axis : reduce.getAxes()) last = std::max(last, axis);
  int64_t row = count_of(extents.drop_front(static_cast<size_t>(last + 1)));
  return results / row * ((row + neighbors - 1) / neighbors);
}

// How the reduction is divided, for a device that `enough` workers keep busy, each with that many `neighbors`; nothing if it is not.
std::optional<Division> division_of(tx::ReduceOp reduce, int64_t enough, int64_t neighbors) {
  RankedTensorType input = tx::tensor(reduce.getInput()), result = tx::tensor(reduce.getResult());
  if (!input.hasStaticShape() || input.getNumElements() == 0) return std::nullopt;
  bool is_integer_mean = reduce.getKind() == tx::ReduceKind::mean && !llvm::isa<FloatType>(input.getElementType());
  int64_t workers = workers_of(reduce, count_of(result.getShape()), neighbors);
  int64_t most = std::min(enough / workers, input.getNumElements() / workers / smallest_part);
  if (most < 2 || is_integer_mean) return std::nullopt;
  std::optional<Division> best;
  for (int64_t axis : reduce.getAxes()) {
    int64_t extent = input.getDimSize(static_cast<unsigned>(axis));
    for (int64_t parts = std::min(most, extent); parts > (best ? best->parts : 1); --parts) {
      if (extent % parts != 0) continue;
      best = Division{axis, parts, extent / parts};
      break;
    }
  }
  return best;
}

class Divider {
 public:
  Divider(OpBuilder& builder, const Division& division) : builder_(builder), division_(division) {}

  // The value with its dimension divided. A value that is computed only for this reader is computed that way.
  Value divided(Value value) {
    if (Value known = known_.lookup(value)) return known;
    Value made = make(value);  // this may add to the known values
    known_[value] = made;
    return made;
  }

 private:
  Value make(Value value) {
    RankedTensorType whole = tx::tensor(value);
    RankedTensorType type = tx::tensor_type(division_.extents_of(tx::extents(whole)), whole.getElementType());
    Operation* op = value.getDefiningOp();
    if (op && tx::is_elementwise(op) && op->hasOneUse()) {
      SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), [&](Value operand) { return divided(operand); });
      OperationState state(op->getLoc(), op->getName(), operands, type, op->getAttrs());
      return builder_.create(state)->getResult(0);
    }
    if (auto broadcast = value.getDefiningOp<tx::BroadcastOp>()) {
      // A value that is broadcast along the dimension is broadcast along both new ones.
      SmallVector<int64_t> dimensions(broadcast.getDimensions());
      Value input = broadcast.getInput();
      bool is_repeated = true;
      for (auto [i, dimension] : llvm::enumerate(dimensions)) {
        if (dimension == division_.dimension) is_repeated = tx::static_extent(tx::extents(tx::tensor(input))[i]) == 1;
        if (dimension > division_.dimension) ++dimension;
      }
      if (is_repeated) return builder_.create<tx::BroadcastOp>(value.getLoc(), type, input, dimensions);
    }
    auto constant = value.getDefiningOp<tx::ConstantOp>();
    if (auto splat = constant ? llvm::dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr())
      return builder_.create<tx::ConstantOp>(value.getLoc(), type, SplatElementsAttr::get(type, splat.getSplatValue<Attribute>()));
    return builder_.create<tx::ReshapeOp>(value.getLoc(), type, value);
  }

  OpBuilder& builder_;
  const Division& division_;
  llvm::DenseMap<Value, Value> known_;
};

struct DivideFolds : PassWrapper<DivideFolds, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DivideFolds)
  explicit DivideFolds(const Devices& devices) : devices(&devices) {}
  StringRef getArgument() const override { return "heddle-divide-folds"; }
  StringRef getDescription() const override { return "reductions of many elements to few results are computed in parts"; }
  void getDependentDialects(DialectRegistry& registry) const override { devices->register_dialects(registry); }

  void runOnOperation() override {
    Slots slots(getOperation());
    auto module = getOperation()->getParentOfType<ModuleOp>();
    for (Operation& op : llvm::make_early_inc_range(getOperation().getBody().front())) {
      auto reduce = llvm::dyn_cast<tx::ReduceOp>(op);
      if (!reduce) continue;
      StringRef family = tx::family_of(module, slots.of_or_default(&op));
      auto division = division_of(reduce, devices->results_at_once(family), devices->neighbors_at_once(family));
      if (division) rewrite(reduce, *division);
    }
  }

  static void rewrite(tx::ReduceOp reduce, const Division& division) {
    OpBuilder builder(reduce);
    Location location = reduce.getLoc();
    Value parts = Divider(builder, division).divided(reduce.getInput());
    RankedTensorType type = tx::tensor(reduce.getResult());
    // Results of parts may be larger than the final one, and are rounded once.
    bool is_narrow = llvm::isa<FloatType>(type.getElementType()) && type.getElementTypeBitWidth() < 32;
    Type wide = is_narrow ? builder.getF32Type() : type.getElementType();
    if (is_narrow) parts = builder.create<tx::CastOp>(location, tx::with_element_type(tx::tensor(parts), wide), parts);
    SmallVector<int64_t> axes;
    SmallVector<AffineExpr> left = tx::extents(tx::tensor(parts)), kept;
    for (int64_t axis : reduce.getAxes()) axes.push_back(axis < division.dimension ? axis : axis + 1);
    int64_t place = 0;  // of the parts, among the dimensions that remain
    for (auto [d, extent] : llvm::enumerate(left)) {
      if (llvm::is_contained(axes, static_cast<int64_t>(d))) continue;
      if (static_cast<int64_t>(d) == division.dimension) place = static_cast<int64_t>(kept.size());
      kept.push_back(extent);
    }
    auto kind = reduce.getKind();
    Value first = builder.create<tx::ReduceOp>(location, tx::tensor_type(kept, wide), kind, parts, axes);
    Value all = builder.create<tx::ReduceOp>(location, tx::with_element_type(type, wide), kind, first, ArrayRef<int64_t>{place});
    if (is_narrow) all = builder.create<tx::CastOp>(location, type, all);
    reduce.getResult().replaceAllUsesWith(all);
    reduce.erase();
  }

  const Devices* devices;
};

}  // namespace

std::unique_ptr<Pass> divide_folds(const Devices& devices) {
  return std::make_unique<DivideFolds>(devices);
}

}  // namespace heddle::passes
