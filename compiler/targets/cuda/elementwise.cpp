// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads over elements, and the strategy for element-wise ops and data movement on top: every output element is computed by the
// thread that stores it, with accesses of 128 bits where they fit.
#include "compiler/targets/cuda/strategy.h"

#include "compiler/targets/output_space.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

class ElementwisePart final : public Part {
 public:
  ElementwisePart(tx::DispatchOp region, ArrayRef<Output> outputs, OutputSpace space, int64_t threads)
      : region_(region),
        outputs_(outputs),
        space_(std::move(space)),
        lanes_(lanes_for(product(ArrayRef<AffineExpr>(space_.extents).take_back(space_.flattened)), outputs)),
        threads_(space_.extents, space_.flattened, lanes_, threads) {}

  AffineExpr workgroups() const override { return threads_.workgroups(); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    space_.prepare(evaluator);
    threads_.emit(k, block, [&](ArrayRef<Value> outer, Value inner) {
      all = store_outputs(k, evaluator, outputs_, space_.point(k, outer, inner, lanes_));
    });
    return all;
  }

 private:
  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  OutputSpace space_;
  int64_t lanes_;
  ThreadSpace threads_;
};

}  // namespace

AffineExpr product(ArrayRef<AffineExpr> extents) {
  AffineExpr result = extents.front();
  for (AffineExpr extent : extents.drop_front()) result = result * extent;
  return result;
}

SmallVector<Value> delinearize(KernelBuilder& k, Value index, ArrayRef<AffineExpr> extents) {
  bool narrow = true;
  int64_t count = 1;
  for (AffineExpr extent : extents) {
    auto fixed = llvm::dyn_cast<AffineConstantExpr>(extent);
    narrow &= fixed && fixed.getValue() > 0 && fixed.getValue() < (int64_t{1} << 31) && count < (int64_t{1} << 31);
    if (narrow) count *= fixed.getValue();
  }
  narrow &= count < (int64_t{1} << 31);
  Type i32 = k.builder.getI32Type(), i64 = k.builder.getI64Type();
  Value rest = narrow ? k.make<arith::TruncIOp>(i32, index) : index;
  SmallVector<Value> indices(extents.size());
  for (size_t d = extents.size(); d-- > 0;) {
    Value extent = k.extent(extents[d]);
    if (narrow) extent = k.make<arith::TruncIOp>(i32, extent);
    Value here = d == 0 ? rest : k.rem(rest, extent);
    if (d > 0) rest = k.div(rest, extent);
    indices[d] = narrow ? k.make<arith::ExtUIOp>(i64, here) : here;
  }
  return indices;
}

int64_t lanes_for(AffineExpr inner, ArrayRef<Output> outputs) {
  auto fixed = llvm::dyn_cast<AffineConstantExpr>(inner);
  if (!fixed) return 0;
  int64_t lanes = 8;
  for (const Output& output : outputs) {
    int64_t bytes = std::max<int64_t>(1, tx::tensor(output.value).getElementTypeBitWidth() / 8);
    lanes = std::min<int64_t>(lanes, std::max<int64_t>(1, 16 / bytes));
  }
  while (lanes > 1 && fixed.getValue() % lanes != 0) lanes /= 2;
  return lanes > 1 ? lanes : 0;
}

ThreadSpace::ThreadSpace(ArrayRef<AffineExpr> extents, unsigned flattened, int64_t lanes, int64_t threads) : lanes_(lanes) {
  extents_.assign(extents.begin(), extents.end() - flattened);
  AffineExpr inner = product(extents.take_back(flattened));
  extents_.push_back(lanes > 1 ? inner.floorDiv(lanes) : inner);
  points_ = product(extents_);
  workgroups_ = points_.ceilDiv(threads);
}

void ThreadSpace::emit(KernelBuilder& k, Value block, const std::function<void(ArrayRef<Value>, Value)>& body) const {
  Value id = k.add(k.mul(block, k.threads), k.thread());
  k.branch(k.less(id, k.extent(points_)), [&] {
    SmallVector<Value> indices = delinearize(k, id, extents_);
    Value inner = indices.pop_back_val();
    body(indices, lanes_ > 1 ? k.mul(inner, lanes_) : inner);
  });
}

Parts elementwise_parts(tx::DispatchOp region, ArrayRef<Output> outputs, const Budget& budget) {
  Parts parts;
  for (OutputSpace& space : output_spaces(outputs)) {
    parts.push_back(std::make_unique<ElementwisePart>(region, outputs, std::move(space), budget.threads));
  }
  return parts;
}

}  // namespace heddle::targets::cuda
