// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See window_values.h.
#include "compiler/targets/window_values.h"

#include <limits>

#include "compiler/stage/scalar_body.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// From..to, i64.
struct Range {
  Value from, to;
};

// Where the window of one output index lies along one spatial dimension.
struct Window {
  Value start;             // index of tap 0 in the input; may be negative
  Range inside, with_pad;  // taps inside the input, or inside input and pads
};

Window window_of(KernelBuilder& k, tx::PoolOp pool, size_t d, Value out) {
  int64_t taps = pool.getKernel()[d], stride = pool.getStrides()[d], dilation = pool.getDilations()[d];
  int64_t low = pool.getPadsLow()[d], high = pool.getPadsHigh()[d];
  auto in_type = tx::tensor(pool.getInput()), out_type = tx::tensor(pool.getResult());
  Window window;
  window.start = k.add(k.mul(out, stride), -low);
  window.inside = window.with_pad = {k.index(0), k.index(taps)};
  bool fixed = !in_type.isDynamicDim(static_cast<unsigned>(d) + 1) && !out_type.isDynamicDim(static_cast<unsigned>(d) + 1);
  int64_t last = fixed ? (out_type.getDimSize(static_cast<unsigned>(d) + 1) - 1) * stride - low + (taps - 1) * dilation : 0;
  int64_t in_extent = in_type.getDimSize(static_cast<unsigned>(d) + 1);
  Value extent = k.extent(tx::extents(in_type)[d + 1]), step = k.index(dilation), all_taps = k.index(taps), zero = k.index(0);
  if (low > 0) {
    Value missing = k.max(zero, k.sub(zero, window.start));
    window.inside.from = k.min(all_taps, k.ceil_div(missing, step));
  }
  if (!fixed || last >= in_extent) {
    Value left = k.max(zero, k.sub(extent, window.start));
    window.inside.to = k.max(window.inside.from, k.min(all_taps, k.ceil_div(left, step)));
  }
  if (!fixed || last >= in_extent + high) {
    Value left = k.max(zero, k.sub(k.add(extent, high), window.start));
    window.with_pad.to = k.min(all_taps, k.ceil_div(left, step));
  }
  return window;
}

// Loops over the ranges, the last one innermost. `index` must be empty, and is when body is not running.
KernelBuilder::Values nested_loops(KernelBuilder& k, ArrayRef<Range> ranges, SmallVector<Value>& index, ValueRange carried,
                                   const std::function<KernelBuilder::Values(ArrayRef<Value>, ValueRange)>& body) {
  if (index.size() == ranges.size()) return body(index, carried);
  Range range = ranges[index.size()];
  return k.loop(range.from, range.to, k.index(1), carried, [&](Value i, ValueRange values) {
    index.push_back(i);
    KernelBuilder::Values next = nested_loops(k, ranges, index, values, body);
    index.pop_back();
    return next;
  });
}

// The largest of a window, or the sum and the mean.
class Pooled {
 public:
  Pooled(KernelBuilder& kernel, tx::PoolOp pool)
      : k_(kernel), is_max_(pool.getKind() == tx::PoolKind::max), element_(tx::tensor(pool.getInput()).getElementType()) {}

  Value initial(int64_t lanes) const {
    Type computed = stage::compute_type(element_);
    TypedAttr value;
    if (auto float_type = llvm::dyn_cast<FloatType>(computed)) {
      value = FloatAttr::get(float_type, is_max_ ? -std::numeric_limits<double>::infinity() : 0.0);
    } else {
      unsigned width = computed.getIntOrFloatBitWidth();
      bool is_lowest = is_max_ && !stage::is_unsigned(element_);
      value = IntegerAttr::get(computed, is_lowest ? APInt::getSignedMinValue(width) : APInt(width, 0));
    }
    if (lanes > 0) value = SplatElementsAttr::get(k_.vector_type(computed, lanes), value);
    return k_.builder.create<arith::ConstantOp>(k_.location, value);
  }

  Value combine(Value a, Value b) const {
    if (is_max_) return stage::emit_fast_max(k_.builder, k_.location, a, b, stage::is_unsigned(element_));
    return llvm::isa<FloatType>(getElementTypeOrSelf(a.getType())) ? k_.make<arith::AddFOp>(a, b) : k_.make<arith::AddIOp>(a, b);
  }

  // The sum over `count` (i64) elements divided by it.
  Value mean(Value sum, Value count) const {
    Type type = sum.getType(), scalar = getElementTypeOrSelf(type);
    Value divisor;
    if (llvm::isa<FloatType>(scalar)) {
      divisor = k_.make<arith::SIToFPOp>(scalar, count);
    } else {
      divisor = scalar.isInteger(64) ? count : k_.make<arith::TruncIOp>(scalar, count);
    }
    if (auto vector = llvm::dyn_cast<VectorType>(type)) divisor = k_.splat(divisor, vector.getNumElements());
    if (llvm::isa<FloatType>(scalar)) return k_.make<arith::DivFOp>(sum, divisor);
    return stage::is_unsigned(element_) ? k_.make<arith::DivUIOp>(sum, divisor) : k_.make<arith::DivSIOp>(sum, divisor);
  }

 private:
  KernelBuilder& k_;
  bool is_max_;
  Type element_;  // as in memory
};

}  // namespace

FailureOr<KernelBuilder::Values> pool_values(KernelBuilder& k, ElementEvaluator& evaluator, tx::PoolOp pool, ArrayRef<Point> points) {
  bool is_max = pool.getKind() == tx::PoolKind::max;
  Pooled pooled(k, pool);
  SmallVector<Range> taps;
  SmallVector<Value> starts;
  Value count = k.index(1);
  for (size_t d = 0; d < pool.getKernel().size(); ++d) {
    Window window = window_of(k, pool, d, points.front().at[d + 1].base);
    taps.push_back(window.inside);
    starts.push_back(window.start);
    Range counted = pool.getIncludePad() ? window.with_pad : window.inside;
    if (!is_max) count = k.mul(count, k.sub(counted.to, counted.from));
  }
  bool known = true;
  SmallVector<Value> initial, index;
  for (const Point& point : points) initial.push_back(pooled.initial(point.lanes));
  auto sums = nested_loops(k, taps, index, initial, [&](ArrayRef<Value> tap, ValueRange carried) {
    KernelBuilder::Values next;
    for (auto [result, accumulated] : llvm::zip_equal(points, carried)) {
      Point point = result;
      for (size_t d = 0; d < tap.size(); ++d) point.at[d + 1].base = k.add(starts[d], k.mul(tap[d], pool.getDilations()[d]));
      Value value = evaluator.element(pool.getInput(), point);
      known &= static_cast<bool>(value);
      next.push_back(value ? pooled.combine(accumulated, value) : accumulated);
    }
    return next;
  });
  if (!known) return failure();
  if (!is_max) {
    for (Value& sum : sums) sum = pooled.mean(sum, count);
  }
  return sums;
}

FailureOr<Value> lrn_value(KernelBuilder& k, ElementEvaluator& evaluator, tx::LrnOp lrn, const Point& point, bool inside_row) {
  constexpr int64_t largest_unrolled = 16;  // usual windows have 5; code grows with each element
  int64_t size = static_cast<int64_t>(lrn.getSize()), before = (size - 1) / 2, behind = size / 2;
  AffineExpr extent = tx::extents(tx::tensor(lrn.getInput())).back();
  Value channels = k.extent(extent), center;
  if (auto known = llvm::dyn_cast<AffineConstantExpr>(extent)) {  // nothing lies further away
    before = std::min(before, std::max<int64_t>(0, known.getValue() - 1));
    behind = std::min(behind, std::max<int64_t>(0, known.getValue() - 1));
  }
  // The square of the element at a distance that may be below 0, or above, or is 0. Null after a diagnostic.
  auto square_at = [&](Value offset, bool may_be_below, bool may_be_above) -> Value {
    Point neighbor = point;
    Coordinate& c = neighbor.at.back();
    c.base = k.add(c.base, offset);
    Value uniform;  // for a single element: is it there?
    if (!inside_row && (may_be_below || may_be_above)) {
      if (point.lanes == 0) {
        uniform = k.make<arith::AndIOp>(k.make<arith::CmpIOp>(arith::CmpIPredicate::sge, c.base, k.index(0)), k.less(c.base, channels));
        c.base = k.max(k.index(0), k.min(c.base, k.sub(channels, k.index(1))));
      } else {
        // first lane inside: -base; lanes inside: channels - base
        Value inside = k.tail_mask(k.sub(channels, c.base), point.lanes);
        if (may_be_below) {
          Value missing = k.tail_mask(k.sub(k.index(0), c.base), point.lanes);
          inside = k.make<arith::AndIOp>(inside, k.make<arith::XOrIOp>(missing, k.constant(missing.getType(), 1)));
        }
        neighbor.mask = point.mask ? k.make<arith::AndIOp>(point.mask, inside) : inside;
      }
    }
    Value x = evaluator.element(lrn.getInput(), neighbor);
    if (!x) return {};
    if (!may_be_below && !may_be_above) center = x;
    Value square = k.make<arith::MulFOp>(x, x);
    // Masked lanes of a load are 0 already, but an op behind the load may have changed that.
    Value zero = k.constant(square.getType(), 0);
    if (uniform) square = k.make<arith::SelectOp>(uniform, square, zero);
    if (neighbor.mask && neighbor.mask != point.mask) square = k.make<arith::SelectOp>(neighbor.mask, square, zero);
    return square;
  };
  Value sum;
  if (before + behind < largest_unrolled) {
    for (int64_t offset = -before; offset <= behind; ++offset) {
      Value square = square_at(k.index(offset), offset < 0, offset > 0);
      if (!square) return failure();
      sum = sum ? k.make<arith::AddFOp>(sum, square) : square;
    }
  } else {
    sum = square_at(k.index(0), false, false);
    if (!sum) return failure();
    auto add_side = [&](int64_t first, int64_t last, bool below) {
      bool known = true;
      sum = k.loop(k.index(first), k.index(last), k.index(1), ValueRange(sum), [&](Value offset, ValueRange carried) {
        Value square = square_at(offset, below, !below);
        known &= static_cast<bool>(square);
        return KernelBuilder::Values{square ? k.make<arith::AddFOp>(carried[0], square) : Value(carried[0])};
      })[0];
      return known;
    };
    if (!add_side(-before, 0, true) || !add_side(1, behind + 1, false)) return failure();
  }
  Type type = sum.getType();
  double scale = lrn.getAlpha().convertToDouble() / static_cast<double>(lrn.getSize());
  Value base = k.make<math::FmaOp>(sum, k.constant(type, scale), k.constant(type, lrn.getBias().convertToDouble()));
  Value power = stage::emit_constant_power(k.builder, k.location, base, lrn.getBeta().convertToDouble());
  return k.make<arith::DivFOp>(center, power);
}

}  // namespace heddle::targets
