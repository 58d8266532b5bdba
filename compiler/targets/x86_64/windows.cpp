// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strategies for pooling and local response normalization: the root's value is computed for a few vectors of the result, then the element-wise ops behind it are applied where it is stored. Called by elemental.cpp.
#include "compiler/targets/window_values.h"
#include "compiler/targets/x86_64/strategy.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

// A part with a root; the base of all strategies here.
class RootPart : public Part {
 public:
  RootPart(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root) : region_(region), outputs_(outputs), root_(root) {
    extents_ = tx::extents(tx::tensor(root->getResult(0)));
    if (extents_.empty()) extents_.push_back(getAffineConstantExpr(1, region.getContext()));
    is_scalar_ = tx::tensor(root->getResult(0)).getRank() == 0;
  }
  AffineExpr workgroups() const override { return cut_.workgroups; }
  uint64_t cost_ns() const override { return cut_.cost_ns; }

 protected:
  Value input() const { return root_->getOperand(0); }
  Type element() const { return tx::tensor(input()).getElementType(); }
  double input_ns() const { return element_ns(input()); }

  // The point of vector v of a stretch, the inner coordinate last.
  Point point_of(KernelBuilder& k, const Stretch& stretch, int64_t v) const {
    Point point;
    point.lanes = stretch.lanes;
    point.mask = stretch.mask;
    for (Value index : stretch.outer) point.at.push_back({index, 0, {}});
    point.at.push_back({k.add(stretch.inner, v * stretch.lanes), stretch.lanes > 0 ? 1 : 0, {}});
    return point;
  }

  std::vector<Point> points_of(KernelBuilder& k, const Stretch& stretch) const {
    std::vector<Point> points;
    for (int64_t v = 0; v < stretch.vectors; ++v) points.push_back(point_of(k, stretch, v));
    return points;
  }

  LogicalResult store_all(KernelBuilder& k, ElementEvaluator& evaluator, const Stretch& stretch,
                          const FailureOr<KernelBuilder::Values>& root_values) const {
    if (failed(root_values)) return failure();
    for (int64_t v = 0; v < stretch.vectors; ++v) {
      if (failed(store(k, evaluator, (*root_values)[v], point_of(k, stretch, v)))) return failure();
    }
    return success();
  }

  LogicalResult store(KernelBuilder& k, ElementEvaluator& evaluator, Value root_value, Point point) const {
    if (is_scalar_) point.at.clear();
    evaluator.set(root_->getResult(0), root_value);
    LogicalResult result = store_outputs(k, evaluator, outputs_, point);
    evaluator.unset(root_->getResult(0));
    return result;
  }

  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  Operation* root_;
  SmallVector<AffineExpr> extents_;
  bool is_scalar_;
  RowCut cut_;
};

class PoolPart final : public RootPart {
 public:
  PoolPart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::PoolOp pool) : RootPart(region, outputs, pool), pool_(pool) {
    double window = 1;
    for (int64_t extent : pool.getKernel()) window *= static_cast<double>(extent);
    cut_ = RowCut::make(RowSpace::of(extents_, 1), window * 0.03 + element_ns(outputs_));
  }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    row_loops(k, cut_, block, 8, [&](const Stretch& stretch) {
      if (succeeded(all)) all = store_all(k, evaluator, stretch, pool_values(k, evaluator, pool_, points_of(k, stretch)));
    });
    return all;
  }

 private:
  tx::PoolOp pool_;
};

class LrnPart final : public RootPart {
 public:
  LrnPart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::LrnOp lrn) : RootPart(region, outputs, lrn), lrn_(lrn) {
    cut_ = RowCut::make(RowSpace::of(extents_, 1), static_cast<double>(lrn.getSize()) * 0.03 + input_ns() + 0.1);
  }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    tx::LrnOp lrn = lrn_;
    int64_t size = static_cast<int64_t>(lrn.getSize()), before = (size - 1) / 2, behind = size / 2;
    Value channels = k.extent(extents_.back());
    row_loops(k, cut_, block, 2, [&](const Stretch& stretch) {
      // Stretches whose windows lie inside the row need no masks.
      Value from = k.sub(stretch.inner, k.index(before));
      Value to = k.add(stretch.inner, stretch.vectors * std::max<int64_t>(1, stretch.lanes) + behind);
      Value inside = k.make<arith::AndIOp>(k.make<arith::CmpIOp>(arith::CmpIPredicate::sge, from, k.index(0)),
                                           k.make<arith::CmpIOp>(arith::CmpIPredicate::sle, to, channels));
      auto body = [&](bool masked) {
        for (int64_t v = 0; v < stretch.vectors; ++v) {
          if (failed(all)) return;
          Point point = point_of(k, stretch, v);
          auto value = lrn_value(k, evaluator, lrn_, point, !masked);
          all = failed(value) ? failure() : store(k, evaluator, *value, point);
        }
      };
      if (stretch.mask || stretch.lanes == 0) {
        body(true);
      } else {
        k.branch(inside, [&] { body(false); }, [&] { body(true); });
      }
    });
    return all;
  }

 private:
  tx::LrnOp lrn_;
};

}  // namespace

FailureOr<Parts> window_parts(tx::DispatchOp region, ArrayRef<Output> outputs) {
  FailureOr<Operation*> found = find_root(outputs);
  if (failed(found)) return failure();
  Operation* root = *found;
  Parts parts;
  if (!root) return parts;
  if (auto pool = llvm::dyn_cast<tx::PoolOp>(root)) {
    parts.push_back(std::make_unique<PoolPart>(region, outputs, pool));
  } else {
    auto lrn = llvm::cast<tx::LrnOp>(root);
    if (!llvm::isa<FloatType>(tx::tensor(lrn.getInput()).getElementType()))
      return FailureOr<Parts>(lrn.emitError("x86_64: lrn needs floats"));
    parts.push_back(std::make_unique<LrnPart>(region, outputs, lrn));
  }
  return parts;
}

}  // namespace heddle::targets::x86_64
