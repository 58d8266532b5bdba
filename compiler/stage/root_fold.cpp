// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, windows and cumulative sums.
#include "compiler/stage/root_stages.h"
#include "compiler/stage/scalar_body.h"

using namespace mlir;

namespace heddle::stage {

Value emit_combined(OpBuilder& b, tx::ReduceKind kind, Value x, Value y, bool no_sign) {
  Location at = b.getUnknownLoc();
  bool is_float = llvm::isa<FloatType>(x.getType());
  switch (kind) {
    case tx::ReduceKind::sum:
    case tx::ReduceKind::mean:
      return is_float ? b.create<arith::AddFOp>(at, x, y).getResult() : b.create<arith::AddIOp>(at, x, y).getResult();
    case tx::ReduceKind::prod:
      return is_float ? b.create<arith::MulFOp>(at, x, y).getResult() : b.create<arith::MulIOp>(at, x, y).getResult();
    case tx::ReduceKind::max:
      if (is_float) return b.create<arith::MaximumFOp>(at, x, y, arith::FastMathFlags::nsz);
      return no_sign ? b.create<arith::MaxUIOp>(at, x, y).getResult() : b.create<arith::MaxSIOp>(at, x, y).getResult();
    case tx::ReduceKind::min:
      if (is_float) return b.create<arith::MinimumFOp>(at, x, y, arith::FastMathFlags::nsz);
      return no_sign ? b.create<arith::MinUIOp>(at, x, y).getResult() : b.create<arith::MinSIOp>(at, x, y).getResult();
  }
  llvm_unreachable("all kinds are handled above");
}

namespace {

TypedAttr identity(StageBody& body, tx::ReduceKind kind, Type type, bool no_sign) {
  if (kind == tx::ReduceKind::sum || kind == tx::ReduceKind::mean) return body.number(type, 0);
  if (kind == tx::ReduceKind::prod) return body.number(type, 1);
  bool low = kind == tx::ReduceKind::max;
  if (auto floats = llvm::dyn_cast<FloatType>(type)) return FloatAttr::get(type, APFloat::getInf(floats.getFloatSemantics(), low));
  unsigned width = type.getIntOrFloatBitWidth();
  APInt bound = no_sign ? (low ? APInt::getMinValue(width) : APInt::getMaxValue(width))
                        : (low ? APInt::getSignedMinValue(width) : APInt::getSignedMaxValue(width));
  return IntegerAttr::get(type, bound);
}

// How a fold uses its accumulators: their initial values, how an element changes them, and how those of two parts are merged.
struct Accumulation {
  SmallVector<TypedAttr> init;
  std::function<SmallVector<Value>(StageBody& body, ValueRange have, Value element)> step;
  std::function<SmallVector<Value>(StageBody& body, ValueRange first, ValueRange second)> merge;
};

using Combine = std::function<Value(OpBuilder& b, Value x, Value y)>;

Accumulation one_accumulator(TypedAttr init, const Combine& combine) {
  return {
      {init},
      [=](StageBody& body, ValueRange have, Value x) { return SmallVector<Value>{combine(body.builder, have[0], x)}; },
      [=](StageBody& body, ValueRange first, ValueRange second) { return SmallVector<Value>{combine(body.builder, first[0], second[0])}; }};
}

// Two accumulators: the best element so far, and its index along this dimension of the domain.
Accumulation choosing(tx::ArgReduceOp arg, StageBody& last, unsigned index) {
  Type element = tx::element_of(arg.getInput()), type = compute_type(element);
  bool no_sign = is_unsigned(element), is_max = arg.getKind() == tx::ReduceKind::max, wants_last = arg.getLast();
  auto compare = [=](OpBuilder& b, Value x, Value best, bool or_equal) -> Value {
    Location at = b.getUnknownLoc();
    if (llvm::isa<FloatType>(type)) {
      using P = arith::CmpFPredicate;
      P predicate = is_max ? (or_equal ? P::OGE : P::OGT) : (or_equal ? P::OLE : P::OLT);
      return b.create<arith::CmpFOp>(at, predicate, x, best);
    }
    using P = arith::CmpIPredicate;
    P with_sign = is_max ? (or_equal ? P::sge : P::sgt) : (or_equal ? P::sle : P::slt);
    P without = is_max ? (or_equal ? P::uge : P::ugt) : (or_equal ? P::ule : P::ult);
    return b.create<arith::CmpIOp>(at, no_sign ? without : with_sign, x, best);
  };
  auto is_strictly_ahead = [=](OpBuilder& b, Value x, Value best) { return compare(b, x, best, false); };
  auto choose = [=](OpBuilder& b, ValueRange have, Value x, Value at) {
    Value ahead = compare(b, x, have[0], wants_last);
    Location location = b.getUnknownLoc();
    return SmallVector<Value>{b.create<arith::SelectOp>(location, ahead, x, have[0]),
                              b.create<arith::SelectOp>(location, ahead, at, have[1])};
  };
  Accumulation how;
  how.init = {identity(last, arg.getKind(), type, no_sign), last.builder.getI64IntegerAttr(0)};
  how.step = [=](StageBody& body, ValueRange have, Value x) { return choose(body.builder, have, x, body.index(index)); };
  how.merge = [=](StageBody& body, ValueRange first, ValueRange second) {
    OpBuilder& b = body.builder;
    Location at = b.getUnknownLoc();
    auto either = [&](Value x, Value y) { return b.create<arith::OrIOp>(at, x, y).getResult(); };
    auto both = [&](Value x, Value y) { return b.create<arith::AndIOp>(at, x, y).getResult(); };
    Value is_ahead_of_first = is_strictly_ahead(b, second[0], first[0]), is_behind = is_strictly_ahead(b, first[0], second[0]);
    Value is_equal = b.create<arith::XOrIOp>(at, either(is_ahead_of_first, is_behind), b.create<arith::ConstantIntOp>(at, 1, 1));
    auto order = wants_last ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::slt;
    Value takes_second = either(is_ahead_of_first, both(is_equal, b.create<arith::CmpIOp>(at, order, second[1], first[1])));
    return SmallVector<Value>{b.create<arith::SelectOp>(at, takes_second, second[0], first[0]),
                              b.create<arith::SelectOp>(at, takes_second, second[1], first[1])};
  };
  return how;
}

Accumulation accumulation_of(Operation* root, StageBody& last, unsigned index) {
  if (auto arg = llvm::dyn_cast<tx::ArgReduceOp>(root)) return choosing(arg, last, index);
  Type element = tx::element_of(root->getOperand(0)), type = compute_type(element);
  bool no_sign = is_unsigned(element);
  if (auto reduce = llvm::dyn_cast<tx::ReduceOp>(root)) {
    tx::ReduceKind kind = reduce.getKind();
    return one_accumulator(identity(last, kind, type, no_sign),
                           [=](OpBuilder& b, Value x, Value y) { return emit_combined(b, kind, x, y, no_sign); });
  }
  auto pool = llvm::dyn_cast<tx::PoolOp>(root);
  if (pool && pool.getKind() == tx::PoolKind::max) {
    return one_accumulator(identity(last, tx::ReduceKind::max, type, no_sign),
                           [=](OpBuilder& b, Value x, Value y) { return emit_combined(b, tx::ReduceKind::max, x, y, no_sign); });
  }
  auto add = [=](OpBuilder& b, Value x, Value y) { return emit_combined(b, tx::ReduceKind::sum, x, y, no_sign); };
  Accumulation how = one_accumulator(identity(last, tx::ReduceKind::sum, type, no_sign), add);
  if (llvm::isa<tx::LrnOp>(root)) {
    how.step = [=](StageBody& body, ValueRange have, Value x) {
      Value square = body.builder.create<arith::MulFOp>(body.builder.getUnknownLoc(), x, x);
      return SmallVector<Value>{add(body.builder, have[0], square)};
    };
  }
  return how;
}

// The elements that a root goes through for one element of its result: the reduced extents, where its input is read, and which of these
// elements exist.
struct Folded {
  Exprs extents, place;
  SmallVector<Bounded> within = {};
};

// How many channels count on each side of one; limited by the number of channels.
std::pair<int64_t, int64_t> reach_of(tx::LrnOp lrn) {
  int64_t size = static_cast<int64_t>(lrn.getSize());
  int64_t most = std::max<int64_t>(0, tx::static_extent(tx::extents(tx::tensor(lrn.getInput())).back()).value_or(INT64_MAX) - 1);
  return {std::min((size - 1) / 2, most), std::min(size / 2, most)};
}

Folded folded_of(Operation* root) {
  MLIRContext* context = root->getContext();
  Exprs input = tx::extents(tx::tensor(root->getOperand(0))), result = tx::extents(tx::tensor(root->getResult(0)));
  auto own = [&](size_t i) { return getAffineDimExpr(static_cast<unsigned>(i), context); };
  Folded folded;
  if (auto pool = llvm::dyn_cast<tx::PoolOp>(root)) {
    for (size_t d = 0; d < input.size(); ++d) folded.place.push_back(own(d));
    for (auto [i, taps] : llvm::enumerate(pool.getKernel())) {
      int64_t stride = pool.getStrides()[i], dilation = pool.getDilations()[i], low = pool.getPadsLow()[i];
      AffineExpr index = own(i + 1) * stride + own(result.size() + i) * dilation - low;
      folded.place[i + 1] = index;
      folded.extents.push_back(getAffineConstantExpr(taps, context));
      if (reaches_out(input[i + 1], result[i + 1], folded.extents.back(), stride, dilation, low))
        folded.within.push_back({index, input[i + 1]});
    }
    return folded;
  }
  if (auto lrn = llvm::dyn_cast<tx::LrnOp>(root)) {
    auto [before, behind] = reach_of(lrn);
    for (size_t d = 0; d < input.size(); ++d) folded.place.push_back(own(d));
    folded.place.back() = folded.place.back() + own(result.size()) - before;
    folded.extents = {getAffineConstantExpr(before + behind + 1, context)};
    folded.within = {{folded.place.back(), input.back()}};
    return folded;
  }
  SmallVector<int64_t> axes;
  if (auto reduce = llvm::dyn_cast<tx::ReduceOp>(root)) {
    axes.assign(reduce.getAxes().begin(), reduce.getAxes().end());
  } else {
    axes = {static_cast<int64_t>(llvm::cast<tx::ArgReduceOp>(root).getAxis())};
  }
  size_t kept = 0;
  for (auto [d, extent] : llvm::enumerate(input)) {
    bool is_folded = llvm::is_contained(axes, static_cast<int64_t>(d));
    folded.place.push_back(own(is_folded ? result.size() + folded.extents.size() : kept++));
    if (is_folded) folded.extents.push_back(extent);
  }
  return folded;
}

// ---- what a result is computed from besides the accumulator, in the body that makes it

Value constant_index(StageBody& body, int64_t value) {
  return body.builder.create<arith::ConstantIntOp>(body.builder.getUnknownLoc(), value, 64);
}

// The sum divided by a number of elements, i64.
Value mean(StageBody& last, Value sum, Value count, bool no_sign) {
  OpBuilder& b = last.builder;
  Location at = b.getUnknownLoc();
  Type type = sum.getType();
  if (llvm::isa<FloatType>(type)) return b.create<arith::DivFOp>(at, sum, b.createOrFold<arith::SIToFPOp>(at, type, count));
  if (type.getIntOrFloatBitWidth() < 64) count = b.create<arith::TruncIOp>(at, type, count);
  if (no_sign) return b.create<arith::DivUIOp>(at, sum, count);
  return b.create<arith::DivSIOp>(at, sum, count);
}

Value count_of(StageBody& last, tx::ReduceOp reduce) {
  Exprs extents = tx::extents(tx::tensor(reduce.getInput()));
  AffineExpr count = getAffineConstantExpr(1, reduce.getContext());
  for (int64_t axis : reduce.getAxes()) count = count * extents[axis];
  auto fixed = tx::static_extent(count);
  return fixed ? constant_index(last, *fixed) : last.computed(count);
}

// The number of elements of the window that a mean is taken of: those inside the input, or inside input and pads.
Value count_of(StageBody& last, tx::PoolOp pool, ArrayRef<AffineExpr> result_at) {
  OpBuilder& b = last.builder;
  Location at = b.getUnknownLoc();
  Exprs input = tx::extents(tx::tensor(pool.getInput())), result = tx::extents(tx::tensor(pool.getResult()));
  Value zero = constant_index(last, 0), count = constant_index(last, 1);
  for (auto [i, taps] : llvm::enumerate(pool.getKernel())) {
    int64_t stride = pool.getStrides()[i], dilation = pool.getDilations()[i], low = pool.getPadsLow()[i];
    AffineExpr bound = input[i + 1];
    if (pool.getIncludePad()) bound = bound + pool.getPadsHigh()[i];
    Value all = constant_index(last, taps);
    if (!reaches_out(bound, result[i + 1], getAffineConstantExpr(taps, b.getContext()), stride, dilation, low)) {
      count = b.createOrFold<arith::MulIOp>(at, count, all);
      continue;
    }
    Value start = last.computed(result_at[i + 1] * stride - low);
    if (!start) return {};
    // The number of taps that come before `from`, at most all of them.
    auto taps_before = [&](Value from) -> Value {
      Value distance = b.create<arith::MaxSIOp>(at, zero, b.create<arith::SubIOp>(at, from, start));
      Value rounded = b.create<arith::AddIOp>(at, distance, constant_index(last, dilation - 1));
      return b.create<arith::MinSIOp>(at, all, b.create<arith::DivSIOp>(at, rounded, constant_index(last, dilation)));
    };
    Value own = taps_before(last.computed(bound));
    if (!pool.getIncludePad()) own = b.create<arith::MaxSIOp>(at, zero, b.create<arith::SubIOp>(at, own, taps_before(zero)));
    count = b.createOrFold<arith::MulIOp>(at, count, own);
  }
  return count;
}

// x / (bias + alpha / size * sum)^beta
Value normalized(StageBody& last, tx::LrnOp lrn, Value sum, ArrayRef<AffineExpr> result_at) {
  OpBuilder& b = last.builder;
  Location at = b.getUnknownLoc();
  Value x = last.element(lrn.getInput(), result_at);
  if (!x) return {};
  auto constant = [&](double value) { return b.create<arith::ConstantOp>(at, last.number(sum.getType(), value)); };
  double scale = lrn.getAlpha().convertToDouble() / static_cast<double>(lrn.getSize());
  Value base = b.create<arith::AddFOp>(at, b.create<arith::MulFOp>(at, sum, constant(scale)), constant(lrn.getBias().convertToDouble()));
  return b.create<arith::DivFOp>(at, x, emit_constant_power(b, at, base, lrn.getBeta().convertToDouble()));
}

}  // namespace

void RootStages::add_results(Operation* root, StageBody& last) {
  Type input = tx::element_of(root->getOperand(0)), type = compute_type(tx::element_of(root->getResult(0)));
  if (llvm::isa<tx::ArgReduceOp>(root)) last.add_argument(compute_type(input));
  Value sum = last.add_argument(type);
  if (auto cumsum = llvm::dyn_cast<tx::CumsumOp>(root)) {
    Value behind = last.add_argument(type);
    if (!cumsum.getExclusive()) sum = behind;
  }
  last.result_of_root = [root, sum, input, &last](ArrayRef<AffineExpr> at) -> Value {
    auto divided = [&](Value count) { return count ? mean(last, sum, count, is_unsigned(input)) : count; };
    auto reduce = llvm::dyn_cast<tx::ReduceOp>(root);
    if (reduce && reduce.getKind() == tx::ReduceKind::mean) return divided(count_of(last, reduce));
    auto pool = llvm::dyn_cast<tx::PoolOp>(root);
    if (pool && pool.getKind() == tx::PoolKind::average) return divided(count_of(last, pool, at));
    if (auto lrn = llvm::dyn_cast<tx::LrnOp>(root)) return normalized(last, lrn, sum, at);
    return sum;
  };
}

Operation* RootStages::fold(Operation* root, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types) {
  Location location = builder_.getUnknownLoc();
  Folded folded = folded_of(root);
  unsigned rank = extents.size(), reduced = folded.extents.size();
  Accumulation how = accumulation_of(root, last, rank);
  StageBody init = body(0), step = body(rank + reduced), merge = body(0);
  init.yield(
      llvm::map_to_vector(how.init, [&](TypedAttr value) -> Value { return init.builder.create<arith::ConstantOp>(location, value); }));
  Value value = step.element(root->getOperand(0), over_domain(folded.place, last.root_at, dims(rank, reduced)));
  if (!value) return nullptr;
  auto arguments = [&](StageBody& body) {
    return llvm::map_to_vector(how.init, [&](TypedAttr one) { return body.add_argument(one.getType()); });
  };
  step.yield(how.step(step, arguments(step), value));
  SmallVector<Value> first = arguments(merge), second = arguments(merge);
  merge.yield(how.merge(merge, first, second));
  SmallVector<Value> reads = step.reads;
  SmallVector<Attribute> accesses = step.accesses;
  llvm::append_range(reads, last.reads);
  llvm::append_range(accesses, last.accesses);
  auto op = builder_.create<FoldOp>(location, types, reads, builder_.getI64IntegerAttr(static_cast<int64_t>(step.reads.size())),
                                    builder_.getArrayAttr(accesses), domain(extents, folded.extents, last.root_at, folded.within));
  init.move_to(op.getInit());
  step.move_to(op.getStep());
  merge.move_to(op.getMerge());
  last.move_to(op.getFinish());
  return op;
}

Operation* RootStages::scan(tx::CumsumOp cumsum, StageBody& last, ArrayRef<AffineExpr> extents, TypeRange types) {
  Location location = builder_.getUnknownLoc();
  Value input = cumsum.getInput();
  auto axis = static_cast<size_t>(cumsum.getAxis());
  auto own = llvm::dyn_cast<AffineDimExpr>(last.root_at[axis]);
  bool is_whole = own && extents[own.getPosition()] == tx::extents(tx::tensor(input))[axis];
  for (auto [i, place] : llvm::enumerate(last.root_at)) is_whole &= i == axis || !place.isFunctionOfDim(own.getPosition());
  if (!is_whole) {
    last.refuse("results of a tx.cumsum are moved along its axis");
    return nullptr;
  }
  TypedAttr zero = last.number(compute_type(tx::tensor(input).getElementType()), 0);
  StageBody init = body(0), step = body(extents.size());
  init.yield({init.builder.create<arith::ConstantOp>(location, zero)});
  Value element = step.element(input, last.root_at);
  if (!element) return nullptr;
  Value before = step.add_argument(zero.getType());
  step.yield({emit_combined(step.builder, tx::ReduceKind::sum, before, element, false)});
  SmallVector<Value> reads = step.reads;
  SmallVector<Attribute> accesses = step.accesses;
  llvm::append_range(reads, last.reads);
  llvm::append_range(accesses, last.accesses);
  auto op = builder_.create<ScanOp>(location, types, reads, static_cast<int64_t>(step.reads.size()), builder_.getArrayAttr(accesses),
                                    domain(extents, {}), static_cast<int64_t>(own.getPosition()), cumsum.getReverse());
  init.move_to(op.getInit());
  step.move_to(op.getStep());
  last.move_to(op.getFinish());
  return op;
}

}  // namespace heddle::stage
