// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The strategy for a transpose that moves the innermost dimension: square tiles go through shared memory, so that both reads and writes use whole
// rows. Ops before and after the transpose are computed on the way.
#include "compiler/stage/scalar_body.h"
#include "compiler/targets/cuda/strategy.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr int64_t side = 64;           // of a tile
constexpr int64_t shortest_side = 16;  // below it, a tile is mostly empty

// The first transpose that the value is, or is computed from by element-wise ops only.
tx::TransposeOp transpose_behind(Value value, llvm::DenseSet<Value>& seen) {
  Operation* op = value.getDefiningOp();
  if (!op || !seen.insert(value).second) return {};
  if (auto transpose = llvm::dyn_cast<tx::TransposeOp>(op)) return transpose;
  if (!tx::is_elementwise(op)) return {};
  for (Value operand : op->getOperands()) {
    if (auto transpose = transpose_behind(operand, seen)) return transpose;
  }
  return {};
}

class TransposePart final : public Part {
 public:
  TransposePart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::TransposeOp transpose, size_t across, int64_t threads)
      : region_(region), outputs_(outputs), transpose_(transpose), across_(across), threads_(threads) {
    extents_ = tx::extents(tx::tensor(transpose.getResult()));
    for (size_t d = 0; d < extents_.size(); ++d) {
      tiles_.push_back(d == across_ || d + 1 == extents_.size() ? extents_[d].ceilDiv(side) : extents_[d]);
    }
  }

  AffineExpr workgroups() const override { return product(tiles_); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    ElementEvaluator evaluator(k, region_);
    tx::TransposeOp transpose = transpose_;
    SmallVector<Value> tile = delinearize(k, block, tiles_);
    Value memory, lane = k.rem(k.thread(), k.index(side)), line = k.div(k.thread(), k.index(side));
    Type type = stage::compute_type(tx::tensor(transpose.getInput()).getElementType());
    memory = k.shared(type, side * (side + 1));  // one more per row, so that columns are in different banks
    size_t last = extents_.size() - 1;
    // The result's index with these positions along the two dimensions of the tile.
    auto point_at = [&](Value across, Value along) {
      Point point;
      for (size_t d = 0; d < extents_.size(); ++d) {
        Value index = tile[d];
        if (d == across_) index = k.add(k.mul(tile[d], side), across);
        if (d == last) index = k.add(k.mul(tile[d], side), along);
        point.at.push_back({index, 0, {}});
      }
      return point;
    };
    SmallVector<Value> loaded;
    int64_t lines = threads_ / side;
    for (int64_t i = 0; i < side / lines; ++i) {
      Point result = point_at(lane, k.add(line, i * lines)), input;
      input.at.resize(extents_.size());
      for (size_t d = 0; d < extents_.size(); ++d) {
        Value index = result.at[d].base;
        if (d == across_ || d == last) index = k.min(index, k.sub(k.extent(extents_[d]), k.index(1)));
        input.at[transpose.getPermutation()[d]] = {index, 0, {}};
      }
      Value value = evaluator.element(transpose.getInput(), input);
      if (!value) return failure();
      loaded.push_back(value);
    }
    auto place = [&](Value across, Value along) { return k.add(k.mul(along, side + 1), across); };
    for (auto [i, value] : llvm::enumerate(loaded)) k.store(value, memory, place(lane, k.add(line, static_cast<int64_t>(i) * lines)));
    k.barrier();
    LogicalResult all = success();
    for (int64_t i = 0; i < side / lines; ++i) {
      Value across = k.add(line, i * lines);
      Point point = point_at(across, lane);
      Value inside = k.make<arith::AndIOp>(k.less(point.at[across_].base, k.extent(extents_[across_])),
                                           k.less(point.at[last].base, k.extent(extents_[last])));
      k.branch(inside, [&] {
        evaluator.set(transpose.getResult(), k.load(memory, place(across, lane), type));
        if (succeeded(all)) all = store_outputs(k, evaluator, outputs_, point);
        evaluator.unset(transpose.getResult());
      });
    }
    return all;
  }

 private:
  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  tx::TransposeOp transpose_;
  size_t across_;  // dimension of the result along which the input's rows are
  int64_t threads_;
  SmallVector<AffineExpr> extents_, tiles_;
};

}  // namespace

Parts transpose_parts(tx::DispatchOp region, ArrayRef<Output> outputs, const Budget& budget) {
  llvm::DenseSet<Value> seen;
  tx::TransposeOp transpose;
  for (const Output& output : outputs) {
    if (!transpose) transpose = transpose_behind(output.value, seen);
  }
  Parts parts;
  if (!transpose || budget.threads % side != 0 || side % (budget.threads / side) != 0) return parts;
  auto type = tx::tensor(transpose.getResult());
  size_t last = static_cast<size_t>(type.getRank() - 1);
  size_t across =
      static_cast<size_t>(llvm::find(transpose.getPermutation(), static_cast<int64_t>(last)) - transpose.getPermutation().begin());
  if (across == last) return parts;
  for (size_t d : {across, last}) {
    if (!type.isDynamicDim(static_cast<unsigned>(d)) && type.getDimSize(static_cast<unsigned>(d)) < shortest_side) return parts;
  }
  int64_t element_bits = std::max<int64_t>(8, stage::compute_type(type.getElementType()).getIntOrFloatBitWidth());
  if (side * (side + 1) * element_bits / 8 > budget.shared_memory_bytes) return parts;
  parts.push_back(std::make_unique<TransposePart>(region, outputs, transpose, across, budget.threads));
  return parts;
}

}  // namespace heddle::targets::cuda
