// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strategies for pooling, reduction, normalization and softmax. Where the row that is reduced lies along memory, a subgroup or a whole
// workgroup goes through it together; elsewhere neighboring threads have neighboring results, and long columns are cut into
// slices. The element-wise ops behind the root are applied where its value is known.
#include "compiler/stage/scalar_body.h"
#include "compiler/targets/accumulator.h"
#include "compiler/targets/cuda/strategy.h"
#include "compiler/targets/root_values.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

constexpr int64_t long_row = 1024;   // elements; longer ones get a workgroup each
constexpr int64_t long_column = 32;  // elements; longer ones are cut into slices
constexpr int64_t most_element_bytes = 8;
constexpr int64_t row_lanes = 4;     // elements of one access along a row
constexpr int64_t kept_vectors = 8;  // of row_lanes, that a thread keeps in registers between the passes of a softmax

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
    spaces_ = extents_;
    if (auto softmax = llvm::dyn_cast<tx::SoftmaxOp>(root)) spaces_[softmax.getAxis()] = getAffineConstantExpr(1, region.getContext());
    lanes_ = llvm::isa<tx::LrnOp>(root) ? 0 : lanes_for(spaces_.back(), outputs_);
    space_.emplace(spaces_, 1, lanes_, threads);
  }

  AffineExpr workgroups() const override { return space_->workgroups(); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    space_->emit(k, block, [&](ArrayRef<Value> outer, Value inner) {
      Point point = point_of(outer, inner, lanes_);
      if (auto softmax = llvm::dyn_cast<tx::SoftmaxOp>(root_)) {
        all = softmax_values(k, evaluator, softmax, point, [&](Value value, const Point& at) { return store(k, evaluator, value, at); });
        return;
      }
      if (auto lrn = llvm::dyn_cast<tx::LrnOp>(root_)) {
        auto value = lrn_value(k, evaluator, lrn, point, false);
        all = failed(value) ? failure() : store(k, evaluator, *value, point);
        return;
      }
      auto pool = llvm::dyn_cast<tx::PoolOp>(root_);
      auto values = pool ? pool_values(k, evaluator, pool, point) : reduce_values(k, evaluator, llvm::cast<tx::ReduceOp>(root_), point);
      all = failed(values) ? failure() : store(k, evaluator, values->front(), point);
    });
    return all;
  }

 private:
  SmallVector<AffineExpr> spaces_;
  int64_t lanes_;
  std::optional<ThreadSpace> space_;
};

// Threads that go through one row together: a subgroup, or the workgroup. Every one of them gets every result.
class Team {
 public:
  Team(KernelBuilder& k, bool whole_workgroup) : k_(k), whole_(whole_workgroup) {}

  int64_t size() const { return whole_ ? k_.threads() : subgroup_size; }
  Value member() { return whole_ ? k_.thread() : k_.rem(k_.thread(), k_.index(subgroup_size)); }

  // Rows a workgroup, for plan and emit alike.
  static int64_t rows(bool whole_workgroup, int64_t threads) { return whole_workgroup ? 1 : threads / subgroup_size; }

  Value combine(const Accumulator& accumulator, Value value) {
    for (int64_t distance = subgroup_size / 2; distance > 0; distance /= 2) {
      value = accumulator.combine(value, k_.exchange(value, distance));
    }
    if (!whole_) return value;
    int64_t subgroups = k_.threads() / subgroup_size;
    Value memory = k_.shared(value.getType(), subgroups);
    Value subgroup = k_.div(k_.thread(), k_.index(subgroup_size)), lane = k_.rem(k_.thread(), k_.index(subgroup_size));
    k_.branch(k_.make<arith::CmpIOp>(arith::CmpIPredicate::eq, lane, k_.index(0)), [&] { k_.store(value, memory, subgroup); });
    k_.barrier();
    value = k_.load(memory, k_.index(0), value.getType());
    for (int64_t i = 1; i < subgroups; ++i) value = accumulator.combine(value, k_.load(memory, k_.index(i), value.getType()));
    return value;
  }

 private:
  KernelBuilder& k_;
  bool whole_;
};

// Runs body for the rows of this workgroup: one, or one a subgroup.
void for_row(KernelBuilder& k, Value block, bool whole_workgroup, ArrayRef<AffineExpr> extents,
             const std::function<void(ArrayRef<Value>)>& body) {
  if (whole_workgroup) {
    body(delinearize(k, block, extents));
    return;
  }
  Value row = k.add(k.mul(block, k.threads() / subgroup_size), k.div(k.thread(), k.index(subgroup_size)));
  k.branch(k.less(row, k.extent(product(extents))), [&] { body(delinearize(k, row, extents)); });
}

// The reduced dimensions are the last ones, as many as can be walked as one; others are looped over.
class RowReducePart final : public RootPart {
 public:
  RowReducePart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::ReduceOp reduce, int64_t threads)
      : RootPart(region, outputs, reduce, threads), reduce_(reduce), in_extents_(tx::extents(tx::tensor(reduce.getInput()))) {
    size_t rank = in_extents_.size();
    while (row_dims_ < rank && is_reduced(rank - row_dims_ - 1) && can_flatten(input(), row_dims_ + 1)) ++row_dims_;
    row_ = product(ArrayRef<AffineExpr>(in_extents_).take_back(row_dims_));
    whole_workgroup_ = tx::static_extent(row_).value_or(long_row) >= long_row;
  }

  AffineExpr workgroups() const override { return product(extents_).ceilDiv(Team::rows(whole_workgroup_, threads_)); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    tx::ReduceOp reduce = reduce_;
    Accumulator accumulator(k, reduce.getKind(), element());
    Team team(k, whole_workgroup_);
    int64_t lanes = tx::static_extent(row_).value_or(1) % row_lanes == 0 ? row_lanes : 1;
    Value count = k.extent(row_);
    SmallVector<Range> ranges;
    for (size_t d = 0; d + row_dims_ < in_extents_.size(); ++d) {
      if (!is_reduced(d)) continue;
      ranges.push_back({k.index(0), k.extent(in_extents_[d])});
      count = k.mul(count, ranges.back().to);
    }
    for_row(k, block, whole_workgroup_, extents_, [&](ArrayRef<Value> row) {
      SmallVector<Value> index;
      int64_t point_lanes = lanes > 1 ? lanes : 0;
      auto sums =
          nested_loops(k, ranges, index, ValueRange(accumulator.identity(point_lanes)), [&](ArrayRef<Value> looped, ValueRange carried) {
            Value first = k.mul(team.member(), lanes);
            return k.loop(first, k.extent(row_), k.index(team.size() * lanes), carried, [&](Value at, ValueRange values) {
              Point point;
              point.lanes = point_lanes;
              for (size_t d = 0, kept = 0, next = 0; d < in_extents_.size(); ++d) {
                bool in_row = d + row_dims_ >= in_extents_.size();
                point.at.push_back({in_row ? k.index(0) : is_reduced(d) ? looped[next++] : row[kept++], 0, {}});
              }
              point.at.back() = {at, point_lanes > 0 ? 1 : 0, {}};
              Value value = evaluator.element(input(), point);
              if (!value) all = failure();
              return KernelBuilder::Values{value ? accumulator.combine(values[0], value) : values[0]};
            });
          });
      Value sum = team.combine(accumulator, lanes > 1 ? accumulator.across_lanes(sums[0]) : sums[0]);
      if (reduce.getKind() == tx::ReduceKind::mean) sum = accumulator.mean(sum, count);
      k.branch(k.make<arith::CmpIOp>(arith::CmpIPredicate::eq, team.member(), k.index(0)), [&] {
        if (succeeded(all)) all = store(k, evaluator, sum, point_of(row, {}, 0));
      });
    });
    return all;
  }

 private:
  bool is_reduced(size_t d) const {
    tx::ReduceOp reduce = reduce_;
    return llvm::is_contained(reduce.getAxes(), static_cast<int64_t>(d));
  }

  tx::ReduceOp reduce_;
  SmallVector<AffineExpr> in_extents_;
  size_t row_dims_ = 1;
  AffineExpr row_;
  bool whole_workgroup_;
};

// Neighboring results by neighboring threads of a subgroup; each subgroup takes a slice of the reduced elements.
class ColumnReducePart final : public RootPart {
 public:
  ColumnReducePart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::ReduceOp reduce, int64_t threads)
      : RootPart(region, outputs, reduce, threads), reduce_(reduce), in_extents_(tx::extents(tx::tensor(reduce.getInput()))) {
    for (size_t d = 0; d < in_extents_.size(); ++d) {
      if (llvm::is_contained(reduce.getAxes(), static_cast<int64_t>(d))) reduced_.push_back(in_extents_[d]);
    }
  }

  AffineExpr workgroups() const override { return product(extents_).ceilDiv(subgroup_size); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    tx::ReduceOp reduce = reduce_;
    Accumulator accumulator(k, reduce.getKind(), element());
    int64_t slices = threads_ / subgroup_size;
    Value slice = k.div(k.thread(), k.index(subgroup_size)), lane = k.rem(k.thread(), k.index(subgroup_size));
    Value column = k.add(k.mul(block, subgroup_size), lane);
    Value is_there = k.less(column, k.extent(product(extents_)));
    SmallVector<Value> kept = delinearize(k, k.make<arith::SelectOp>(is_there, column, k.index(0)), extents_);
    Value count = k.extent(product(reduced_));
    auto value_at = [&](Value at) -> Value {
      SmallVector<Value> looped = delinearize(k, at, reduced_);
      Point point;
      for (size_t d = 0, next_kept = 0, next = 0; d < in_extents_.size(); ++d) {
        bool is_reduced = llvm::is_contained(reduce.getAxes(), static_cast<int64_t>(d));
        point.at.push_back({is_reduced ? looped[next++] : kept[next_kept++], 0, {}});
      }
      Value value = evaluator.element(input(), point);
      if (!value) all = failure();
      return value ? value : accumulator.identity(0);
    };
    // Several loads at once hide their latency.
    constexpr int64_t at_once = 4;
    Value step = k.index(slices * at_once);
    Value whole = k.mul(k.div(count, step), step);
    SmallVector<Value> initial(at_once, accumulator.identity(0));
    auto sums = k.loop(slice, whole, step, initial, [&](Value at, ValueRange values) {
      KernelBuilder::Values loaded, next;
      for (int64_t i = 0; i < at_once; ++i) loaded.push_back(value_at(k.add(at, i * slices)));
      for (int64_t i = 0; i < at_once; ++i) next.push_back(accumulator.combine(values[i], loaded[i]));
      return next;
    });
    Value sum = accumulator.combine(accumulator.combine(sums[0], sums[1]), accumulator.combine(sums[2], sums[3]));
    sum = k.loop(k.add(whole, slice), count, k.index(slices), ValueRange(sum),
                 [&](Value at, ValueRange values) { return KernelBuilder::Values{accumulator.combine(values[0], value_at(at))}; })[0];
    Value memory = k.shared(sum.getType(), threads_);
    k.store(sum, memory, k.thread());
    k.barrier();
    Value stores = k.make<arith::AndIOp>(is_there, k.less(k.thread(), k.index(subgroup_size)));
    k.branch(stores, [&] {
      Value total = k.loop(k.index(1), k.index(slices), k.index(1), ValueRange(sum), [&](Value i, ValueRange values) {
        Value part = k.load(memory, k.add(k.mul(i, subgroup_size), lane), sum.getType());
        return KernelBuilder::Values{accumulator.combine(values[0], part)};
      })[0];
      if (reduce.getKind() == tx::ReduceKind::mean) total = accumulator.mean(total, count);
      if (succeeded(all)) all = store(k, evaluator, total, point_of(kept, {}, 0));
    });
    return all;
  }

 private:
  tx::ReduceOp reduce_;
  SmallVector<AffineExpr> in_extents_, reduced_;
};

// Softmax along the last dimension.
class RowSoftmaxPart final : public RootPart {
 public:
  RowSoftmaxPart(tx::DispatchOp region, ArrayRef<Output> outputs, tx::SoftmaxOp softmax, int64_t threads)
      : RootPart(region, outputs, softmax, threads), softmax_(softmax), row_(extents_[softmax.getAxis()]) {
    rows_ = extents_;
    rows_[softmax.getAxis()] = getAffineConstantExpr(1, region.getContext());
    whole_workgroup_ = tx::static_extent(row_).value_or(long_row) >= long_row;
  }

  AffineExpr workgroups() const override { return product(rows_).ceilDiv(Team::rows(whole_workgroup_, threads_)); }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    tx::SoftmaxOp softmax = softmax_;
    Accumulator largest(k, tx::ReduceKind::max, element()), total(k, tx::ReduceKind::sum, element());
    Team team(k, whole_workgroup_);
    std::optional<int64_t> row = tx::static_extent(row_);
    int64_t lanes = row.value_or(1) % row_lanes == 0 ? row_lanes : 0, width = std::max<int64_t>(1, lanes);
    int64_t stride = team.size() * width;
    int64_t steps = row ? (*row + stride - 1) / stride : 0;
    bool keep = row && steps <= kept_vectors;
    for_row(k, block, whole_workgroup_, rows_, [&](ArrayRef<Value> outer) {
      Value first = k.mul(team.member(), width), end = k.extent(row_);
      auto point_at = [&](Value at) {
        Point point = point_of(outer, {}, lanes);
        point.at[softmax.getAxis()] = {at, lanes > 0 ? 1 : 0, {}};
        return point;
      };
      auto load = [&](Value at) {
        Value value = evaluator.element(input(), point_at(at));
        if (!value) all = failure();
        return value ? evaluator.to_lanes(value, lanes) : largest.identity(lanes);
      };
      // What this thread has of the row, if it keeps it; then exp of it.
      SmallVector<Value> kept, positions;
      for (int64_t i = 0; keep && i < steps; ++i) {
        Value at = k.add(first, i * stride);
        positions.push_back(at);
        if ((i + 1) * stride <= *row) {
          kept.push_back(load(at));
        } else {
          kept.push_back(k.branch(
              k.less(at, end), largest.identity(lanes).getType(), [&] { return KernelBuilder::Values{load(at)}; },
              [&] { return KernelBuilder::Values{largest.identity(lanes)}; })[0]);
        }
      }
      auto fold = [&](const Accumulator& accumulator, const std::function<Value(Value)>& value_of) {
        Value result = accumulator.identity(lanes);
        if (keep) {
          for (Value& value : kept) result = accumulator.combine(result, value = value_of(value));
        } else {
          result = k.loop(first, end, k.index(stride), ValueRange(result), [&](Value at, ValueRange values) {
            return KernelBuilder::Values{accumulator.combine(values[0], value_of(load(at)))};
          })[0];
        }
        return team.combine(accumulator, lanes > 0 ? accumulator.across_lanes(result) : result);
      };
      Value maximum = fold(largest, [](Value value) { return value; });
      auto shifted = [&](Value value) { return k.make<arith::SubFOp>(value, evaluator.to_lanes(maximum, lanes)); };
      Value sum;
      if (softmax.getLog() && keep) {
        SmallVector<Value> values = kept;  // exp is only for the sum
        sum = fold(total, [&](Value value) { return k.make<math::ExpOp>(shifted(value)); });
        kept = values;
      } else {
        sum = fold(total, [&](Value value) { return k.make<math::ExpOp>(shifted(value)); });
      }
      Value scale = softmax.getLog() ? k.make<math::LogOp>(sum) : k.make<arith::DivFOp>(k.constant(sum.getType(), 1), sum);
      Value scale_lanes = evaluator.to_lanes(scale, lanes);
      auto finish = [&](Value at, Value value, bool is_exp) {
        if (failed(all)) return;
        if (softmax.getLog()) {
          value = k.make<arith::SubFOp>(shifted(value), scale_lanes);
        } else {
          value = k.make<arith::MulFOp>(is_exp ? value : k.make<math::ExpOp>(shifted(value)), scale_lanes);
        }
        all = store(k, evaluator, value, point_at(at));
      };
      for (auto [i, value] : llvm::enumerate(kept)) {
        if ((static_cast<int64_t>(i) + 1) * stride <= *row) {
          finish(positions[i], value, true);
        } else {
          k.branch(k.less(positions[i], end), [&, at = positions[i], value = value] { finish(at, value, true); });
        }
      }
      if (!keep) k.loop(first, end, k.index(stride), [&](Value at) { finish(at, load(at), false); });
    });
    return all;
  }

 private:
  tx::SoftmaxOp softmax_;
  SmallVector<AffineExpr> rows_;
  AffineExpr row_;
  bool whole_workgroup_;
};

bool is_last_reduced(tx::ReduceOp reduce) {
  int64_t rank = tx::tensor(reduce.getInput()).getRank();
  return rank > 0 && llvm::is_contained(reduce.getAxes(), rank - 1);
}

// Elements that become one, where that is known.
int64_t reduced_count(tx::ReduceOp reduce) {
  auto extents = tx::extents(tx::tensor(reduce.getInput()));
  int64_t count = 1;
  for (int64_t axis : reduce.getAxes()) count *= std::max<int64_t>(1, tx::static_extent(extents[axis]).value_or(long_column));
  return count;
}

}  // namespace

bool has_long_columns(tx::ReduceOp reduce) {
  return !is_last_reduced(reduce) && reduced_count(reduce) >= most_threads;
}

FailureOr<Parts> reduction_parts(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, const Budget& budget) {
  int64_t threads = budget.threads;
  Parts parts;
  if (auto reduce = llvm::dyn_cast<tx::ReduceOp>(root)) {
    auto rank = tx::tensor(reduce.getInput()).getRank() - static_cast<int64_t>(reduce.getAxes().size());
    if (tx::tensor(reduce.getResult()).getRank() != rank) {
      reduce.emitError("cuda: result of rank ")
          << tx::tensor(reduce.getResult()).getRank() << " where reducing leaves " << rank << " dimensions";
      return failure();
    }
    if (is_last_reduced(reduce)) {
      parts.push_back(std::make_unique<RowReducePart>(region, outputs, reduce, threads));
    } else if (reduced_count(reduce) >= long_column && threads * most_element_bytes <= budget.shared_memory_bytes) {
      parts.push_back(std::make_unique<ColumnReducePart>(region, outputs, reduce, threads));
    }
  } else if (auto softmax = llvm::dyn_cast<tx::SoftmaxOp>(root)) {
    auto extents = tx::extents(tx::tensor(softmax.getInput()));
    if (!llvm::isa<FloatType>(tx::tensor(softmax.getInput()).getElementType()))
      return FailureOr<Parts>(softmax.emitError("cuda: softmax needs floats"));
    if (static_cast<size_t>(softmax.getAxis()) + 1 == extents.size()) {
      parts.push_back(std::make_unique<RowSoftmaxPart>(region, outputs, softmax, threads));
    }
  } else if (auto lrn = llvm::dyn_cast<tx::LrnOp>(root)) {
    if (!llvm::isa<FloatType>(tx::tensor(lrn.getInput()).getElementType()))
      return FailureOr<Parts>(lrn.emitError("cuda: lrn needs floats"));
  }
  if (parts.empty()) parts.push_back(std::make_unique<WindowPart>(region, outputs, root, threads));
  return parts;
}

}  // namespace heddle::targets::cuda
