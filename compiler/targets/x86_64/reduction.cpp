// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strategies for pooling, reduction and local response normalization: the root's value is computed for a few vectors of the
// result, then the element-wise ops behind it are applied where it is stored. Called by elemental.cpp.
#include "compiler/stage/scalar_body.h"
#include "compiler/targets/accumulator.h"
#include "compiler/targets/root_values.h"
#include "compiler/targets/x86_64/strategy.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

namespace {

double fixed_or(AffineExpr expression, double otherwise) {
  auto constant = llvm::dyn_cast<AffineConstantExpr>(expression);
  return constant ? static_cast<double>(constant.getValue()) : otherwise;
}

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

class ReducePart final : public RootPart {
 public:
  ReducePart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::ReduceOp reduce) : RootPart(region, outputs, reduce), reduce_(reduce) {
    auto in_extents = tx::extents(tx::tensor(input()));
    reduced_.assign(in_extents.size(), false);
    double count = 1;
    for (int64_t axis : reduce.getAxes()) {
      reduced_[axis] = true;
      count *= fixed_or(in_extents[axis], 64);
    }
    along_lanes_ = !reduced_.empty() && reduced_.back();
    double ns = count * input_ns() * 0.5 + 0.1;
    if (along_lanes_) {
      RowSpace space;
      space.outer = extents_;
      space.inner = getAffineConstantExpr(1, region.getContext());
      cut_ = RowCut::make(space, ns);
      while (flattened_ < in_extents.size() && reduced_[in_extents.size() - flattened_ - 1] && can_flatten(input(), flattened_ + 1))
        ++flattened_;
    } else {
      cut_ = RowCut::make(RowSpace::of(extents_, 1), ns);
    }
  }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    Accumulator accumulator(k, reduce().getKind(), element());
    auto in_extents = tx::extents(tx::tensor(input()));
    Value count = k.index(1);
    SmallVector<Range> ranges;
    SmallVector<size_t> looped;  // the reduced dimensions with a loop of their own
    for (size_t d = 0; d < in_extents.size(); ++d) {
      if (!reduced_[d]) continue;
      count = k.mul(count, k.extent(in_extents[d]));
      if (d + flattened_ >= in_extents.size()) continue;
      looped.push_back(d);
      ranges.push_back({k.index(0), k.extent(in_extents[d])});
    }
    row_loops(k, cut_, block, 8, [&](const Stretch& stretch) {
      if (failed(all)) return;
      if (!along_lanes_) {
        all = store_all(k, evaluator, stretch, reduce_values(k, evaluator, reduce_, points_of(k, stretch)));
        return;
      }
      Value sum = reduce_row(k, evaluator, accumulator, stretch, ranges, looped, all);
      if (failed(all)) return;
      Point point;
      for (Value index : stretch.outer) point.at.push_back({index, 0, {}});
      all = store(k, evaluator, reduce().getKind() == tx::ReduceKind::mean ? accumulator.mean(sum, count) : sum, point);
    });
    return all;
  }

 private:
  tx::ReduceOp reduce() const { return reduce_; }

  // The input's index for a result point and the indices of the looped dimensions.
  Point input_point(const Point& result, ArrayRef<size_t> looped, ArrayRef<Value> reduced_index) const {
    Point point;
    point.lanes = result.lanes;
    point.mask = result.mask;
    size_t kept = 0, next = 0;
    for (size_t d = 0; d < reduced_.size(); ++d) {
      if (next < looped.size() && looped[next] == d) {
        point.at.push_back({reduced_index[next++], 0, {}});
      } else if (!reduced_[d]) {
        point.at.push_back(result.at[kept++]);
      } else {
        point.at.push_back({});  // a lane dimension; the caller fills it
      }
    }
    return point;
  }

  // One result element: the innermost reduced dimensions in vectors, the others in loops.
  Value reduce_row(KernelBuilder& k, ElementEvaluator& evaluator, Accumulator& accumulator, const Stretch& stretch, ArrayRef<Range> ranges,
                   ArrayRef<size_t> looped, LogicalResult& all) const {
    constexpr int64_t vectors = 4;
    int64_t lanes = k.level.f32_lanes();
    auto in_extents = tx::extents(tx::tensor(input()));
    AffineExpr inner = RowSpace::of(in_extents, flattened_).inner;
    Point result;
    for (Value index : stretch.outer) result.at.push_back({index, 0, {}});
    Value zero = k.index(0), to = k.extent(inner);
    Value whole = k.mul(k.div(to, k.index(lanes * vectors)), lanes * vectors);
    Value whole_vectors = k.mul(k.div(to, k.index(lanes)), lanes);
    auto value_at = [&](ArrayRef<Value> reduced_index, Value at, Value mask) {
      Point point = input_point(result, looped, reduced_index);
      point.lanes = lanes;
      point.mask = mask;
      for (size_t d = in_extents.size() - flattened_; d < in_extents.size(); ++d) point.at[d] = {zero, 0, {}};
      point.at.back() = {at, 1, {}};
      Value value = evaluator.element(input(), point);
      if (!value) all = failure();
      return value ? accumulator.masked(value, mask, lanes) : accumulator.identity(lanes);
    };
    SmallVector<Value> initial(vectors, accumulator.identity(lanes)), index;
    auto sums = nested_loops(k, ranges, index, initial, [&](ArrayRef<Value> reduced_index, ValueRange carried) {
      auto next = k.loop(zero, whole, k.index(lanes * vectors), carried, [&](Value at, ValueRange values) {
        KernelBuilder::Values combined;
        for (int64_t v = 0; v < vectors; ++v)
          combined.push_back(accumulator.combine(values[v], value_at(reduced_index, k.add(at, v * lanes), {})));
        return combined;
      });
      auto one = k.loop(whole, whole_vectors, k.index(lanes), ValueRange(next[0]), [&](Value at, ValueRange values) {
        return KernelBuilder::Values{accumulator.combine(values[0], value_at(reduced_index, at, {}))};
      });
      IntegerAttr left;
      Value rest = k.sub(to, whole_vectors);
      if (matchPattern(rest, m_Constant(&left)) && left.getInt() == 0) {
        next[0] = one[0];
        return next;
      }
      next[0] = k.branch(
          k.less(zero, rest), one[0].getType(),
          [&] {
            return KernelBuilder::Values{accumulator.combine(one[0], value_at(reduced_index, whole_vectors, k.tail_mask(rest, lanes)))};
          },
          [&] { return KernelBuilder::Values{one[0]}; })[0];
      return next;
    });
    Value sum = accumulator.combine(accumulator.combine(sums[0], sums[1]), accumulator.combine(sums[2], sums[3]));
    return accumulator.across_lanes(sum);
  }

  tx::ReduceOp reduce_;
  SmallVector<bool> reduced_;
  bool along_lanes_ = false;
  unsigned flattened_ = 1;
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

class SoftmaxPart final : public RootPart {
 public:
  SoftmaxPart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::SoftmaxOp softmax)
      : RootPart(region, outputs, softmax), softmax_(softmax) {
    axis_ = static_cast<size_t>(softmax.getAxis());
    AffineExpr one = getAffineConstantExpr(1, region.getContext());
    along_lanes_ = llvm::all_of(ArrayRef<AffineExpr>(extents_).drop_front(axis_ + 1), [&](AffineExpr extent) { return extent == one; });
    double ns = fixed_or(extents_[axis_], 256) * (2 * input_ns() + 0.15);
    SmallVector<AffineExpr> without_axis = extents_;
    without_axis[axis_] = one;
    if (along_lanes_) {
      RowSpace space;
      space.outer = without_axis;
      space.inner = one;
      cut_ = RowCut::make(space, ns);
    } else {
      cut_ = RowCut::make(RowSpace::of(without_axis, 1), ns);
    }
  }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    row_loops(k, cut_, block, 2, [&](const Stretch& stretch) {
      if (along_lanes_) {
        row(k, evaluator, stretch, all);
      } else {
        for (int64_t v = 0; v < stretch.vectors && succeeded(all); ++v) {
          all = softmax_values(k, evaluator, softmax_, point_of(k, stretch, v),
                               [&](Value value, const Point& point) { return store(k, evaluator, value, point); });
        }
      }
    });
    return all;
  }

 private:
  // The axis itself in vectors.
  void row(KernelBuilder& k, ElementEvaluator& evaluator, const Stretch& stretch, LogicalResult& all) const {
    Accumulator largest(k, tx::ReduceKind::max, element()), total(k, tx::ReduceKind::sum, element());
    tx::SoftmaxOp softmax = softmax_;
    int64_t lanes = k.level.f32_lanes();
    Value extent = k.extent(extents_[axis_]), zero = k.index(0);
    Value whole = k.mul(k.div(extent, k.index(lanes)), lanes), rest = k.sub(extent, whole);
    IntegerAttr left;
    bool no_rest = matchPattern(rest, m_Constant(&left)) && left.getInt() == 0;
    auto point_at = [&](Value at, Value mask) {
      Point point;
      point.lanes = lanes;
      point.mask = mask;
      for (Value index : stretch.outer) point.at.push_back({index, 0, {}});
      point.at[axis_] = {at, 1, {}};
      return point;
    };
    auto load = [&](const Point& point) {
      Value value = evaluator.element(input(), point);
      if (!value) all = failure();
      return value ? value : largest.identity(lanes);
    };
    // Folds body(point) over the axis into one vector.
    auto fold = [&](Value initial, const std::function<Value(const Point&, Value)>& body) -> Value {
      Value result = k.loop(zero, whole, k.index(lanes), ValueRange(initial),
                            [&](Value at, ValueRange values) { return KernelBuilder::Values{body(point_at(at, {}), values[0])}; })[0];
      if (no_rest) return result;
      return k.branch(
          k.less(zero, rest), initial.getType(),
          [&] { return KernelBuilder::Values{body(point_at(whole, k.tail_mask(rest, lanes)), result)}; },
          [&] { return KernelBuilder::Values{result}; })[0];
    };
    Value maximum = largest.across_lanes(fold(largest.identity(lanes), [&](const Point& point, Value accumulated) {
      return largest.combine(accumulated, largest.masked(load(point), point.mask, lanes));
    }));
    Value maximum_lanes = k.splat(maximum, lanes);
    // exp is taken once where the result itself can keep it.
    bool keep = !softmax.getLog() && element().isF32() && outputs_.size() == 1 && outputs_.front().value == root_->getResult(0);
    Value sum = total.across_lanes(fold(total.identity(lanes), [&](const Point& point, Value accumulated) {
      Value e = k.make<math::ExpOp>(k.make<arith::SubFOp>(load(point), maximum_lanes));
      if (keep) evaluator.store(e, k.result(outputs_.front().result), tx::tensor(root_->getResult(0)), point);
      return total.combine(accumulated, total.masked(e, point.mask, lanes));
    }));
    Value scale = softmax.getLog() ? k.make<math::LogOp>(sum) : k.make<arith::DivFOp>(k.constant(sum.getType(), 1), sum);
    Value scale_lanes = k.splat(scale, lanes);
    auto finish = [&](const Point& point) {
      if (failed(all)) return;
      if (keep) {
        Value e = evaluator.load_dense(k.result(outputs_.front().result), tx::tensor(root_->getResult(0)), point);
        evaluator.store(k.make<arith::MulFOp>(e, scale_lanes), k.result(outputs_.front().result), tx::tensor(root_->getResult(0)), point);
        return;
      }
      Value shifted = k.make<arith::SubFOp>(load(point), maximum_lanes);
      Value value =
          softmax.getLog() ? k.make<arith::SubFOp>(shifted, scale_lanes) : k.make<arith::MulFOp>(k.make<math::ExpOp>(shifted), scale_lanes);
      all = store(k, evaluator, value, point);
    };
    k.loop(zero, whole, k.index(lanes), [&](Value at) { finish(point_at(at, {})); });
    if (!no_rest) k.branch(k.less(zero, rest), [&] { finish(point_at(whole, k.tail_mask(rest, lanes))); });
  }

  tx::SoftmaxOp softmax_;
  size_t axis_;
  bool along_lanes_;
};

}  // namespace

FailureOr<Parts> reduction_parts(tx::DispatchOp region, ArrayRef<Output> outputs) {
  FailureOr<Operation*> found = find_root(outputs);
  if (failed(found)) return failure();
  Operation* root = *found;
  Parts parts;
  if (!root) return parts;
  if (auto reduce = llvm::dyn_cast<tx::ReduceOp>(root)) {
    auto rank = tx::tensor(reduce.getInput()).getRank() - static_cast<int64_t>(reduce.getAxes().size());
    if (tx::tensor(reduce.getResult()).getRank() != rank) {
      reduce.emitError("x86_64: result of rank ")
          << tx::tensor(reduce.getResult()).getRank() << " where reducing leaves " << rank << " dimensions";
      return failure();
    }
    parts.push_back(std::make_unique<ReducePart>(region, outputs, reduce));
  } else if (auto pool = llvm::dyn_cast<tx::PoolOp>(root)) {
    parts.push_back(std::make_unique<PoolPart>(region, outputs, pool));
  } else if (auto lrn = llvm::dyn_cast<tx::LrnOp>(root)) {
    if (!llvm::isa<FloatType>(tx::tensor(lrn.getInput()).getElementType()))
      return FailureOr<Parts>(lrn.emitError("x86_64: lrn needs floats"));
    parts.push_back(std::make_unique<LrnPart>(region, outputs, lrn));
  } else {
    auto softmax = llvm::cast<tx::SoftmaxOp>(root);
    if (!llvm::isa<FloatType>(tx::tensor(softmax.getInput()).getElementType()))
      return FailureOr<Parts>(softmax.emitError("x86_64: softmax needs floats"));
    parts.push_back(std::make_unique<SoftmaxPart>(region, outputs, softmax));
  }
  return parts;
}

}  // namespace heddle::targets::x86_64
