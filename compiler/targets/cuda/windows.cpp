// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strategies for pooling and local response normalization: neighboring threads have neighboring results. The element-wise ops behind the root are
// applied where its value is known.
#include "compiler/targets/cuda/strategy.h"
#include "compiler/targets/window_values.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

class RootPart : public Part {
 public:
  RootPart(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, int64_t threads)
      : region_(region), outputs_(outputs), root_(root), threads_(threads) {
    extents_ = tx::extents(tx::tensor(root->getResult(0)));
    is_scalar_ = extents_.empty();
    if (is_scalar_) extents_.push_back(getAffineConstantExpr(1, region.getContext()));
  }

 protected:
  Value input() const { return root_->getOperand(0); }
  Type element() const { return tx::tensor(input()).getElementType(); }

  LogicalResult store(KernelBuilder& k, ElementEvaluator& evaluator, Value root_value, Point point) const {
    if (is_scalar_) point.at.clear();
    evaluator.set(root_->getResult(0), root_value);
    LogicalResult result = store_outputs(k, evaluator, outputs_, point);
    evaluator.unset(root_->getResult(0));
    return result;
  }

  static Point point_of(ArrayRef<Value> outer, Value inner, int64_t lanes) {
    Point point;
    point.lanes = lanes;
    for (Value index : outer) point.at.push_back({index, 0, {}});
    if (inner) point.at.push_back({inner, lanes > 0 ? 1 : 0, {}});
    return point;
  }

  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  Operation* root_;
  int64_t threads_;
  SmallVector<AffineExpr> extents_;
  bool is_scalar_;
};

// One thread a result, or a few neighbors.
class WindowPart final : public RootPart {
 public:
  WindowPart(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, int64_t threads) : RootPart(region, outputs, root, threads) {
    lanes_ = llvm::isa<tx::LrnOp>(root) ? 0 : lanes_for(extents_.back(), outputs_);
    space_.emplace(extents_, 1, lanes_, threads);
  }

  AffineExpr workgroups() const override { return space_->workgroups(); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    space_->emit(k, block, [&](ArrayRef<Value> outer, Value inner) {
      Point point = point_of(outer, inner, lanes_);
      if (auto lrn = llvm::dyn_cast<tx::LrnOp>(root_)) {
        auto value = lrn_value(k, evaluator, lrn, point, false);
        all = failed(value) ? failure() : store(k, evaluator, *value, point);
        return;
      }
      auto values = pool_values(k, evaluator, llvm::cast<tx::PoolOp>(root_), point);
      all = failed(values) ? failure() : store(k, evaluator, values->front(), point);
    });
    return all;
  }

 private:
  int64_t lanes_;
  std::optional<ThreadSpace> space_;
};

}  // namespace

FailureOr<Parts> window_parts(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, const Budget& budget) {
  auto lrn = llvm::dyn_cast<tx::LrnOp>(root);
  if (lrn && !llvm::isa<FloatType>(tx::tensor(lrn.getInput()).getElementType()))
    return FailureOr<Parts>(lrn.emitError("cuda: lrn needs floats"));
  Parts parts;
  parts.push_back(std::make_unique<WindowPart>(region, outputs, root, budget.threads));
  return parts;
}

}  // namespace heddle::targets::cuda
