// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See stage_body.h.
#include "compiler/stage/stage_body.h"

#include "compiler/stage/scalar_body.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::stage {

namespace {

// Ops whose results are elements of their input, at places that moved() computes.
bool only_moves(Operation* op) {
  return llvm::isa<tx::TransposeOp, tx::BroadcastOp, tx::SliceOp, tx::ReshapeOp>(op);
}

// The place, in a tensor of extents `to`, of the element that is at `at` in one of extents `from`, in row-major order. Groups of dimensions with
// the same element count correspond to each other; each group is as small as possible.
Exprs reshaped(ArrayRef<AffineExpr> from, ArrayRef<AffineExpr> to, ArrayRef<AffineExpr> at) {
  MLIRContext* context = (from.empty() ? to : from).empty() ? nullptr : (from.empty() ? to : from).front().getContext();
  Exprs place(to.size());
  size_t f = from.size(), t = to.size();
  auto skip_ones = [&] {
    while (f > 0 && tx::is_one(from[f - 1])) --f;
    while (t > 0 && tx::is_one(to[t - 1])) place[--t] = getAffineConstantExpr(0, context);
  };
  for (skip_ones(); t > 0; skip_ones()) {
    // Dimensions [f, f_end) of `from` correspond to dimensions [t, t_end) of `to`.
    size_t f_end = f, t_end = t;
    AffineExpr from_count = getAffineConstantExpr(1, context), to_count = from_count;
    do {
      auto have = tx::static_extent(from_count), want = tx::static_extent(to_count);
      bool more_from = f > 0 && (t == 0 || !have || !want || *have <= *want);
      if (more_from) from_count = from[--f] * from_count;
      if ((!more_from || !have || !want || *have == *want) && t > 0) to_count = to[--t] * to_count;
    } while (from_count != to_count && (f > 0 || t > 0));
    AffineExpr linear = getAffineConstantExpr(0, context);
    for (size_t i = f; i < f_end; ++i) linear = linear * from[i] + at[i];
    for (size_t i = t_end; i-- > t;) {
      bool is_first = llvm::all_of(to.slice(t, i - t), tx::is_one);
      place[i] = tx::is_one(to[i]) ? getAffineConstantExpr(0, context) : is_first ? linear : linear % to[i];
      linear = linear.floorDiv(to[i]);
    }
  }
  return place;
}

// The place in the input of such an op, for a place in its result.
Exprs moved(Operation* op, ArrayRef<AffineExpr> at) {
  MLIRContext* context = op->getContext();
  AffineExpr zero = getAffineConstantExpr(0, context);
  Exprs input_extents = tx::extents(tx::tensor(op->getOperand(0)));
  Exprs place(input_extents.size(), zero);
  return llvm::TypeSwitch<Operation*, Exprs>(op)
      .Case([&](tx::TransposeOp transpose) {
        for (auto [i, from] : llvm::enumerate(transpose.getPermutation())) place[from] = at[i];
        return place;
      })
      .Case([&](tx::BroadcastOp broadcast) {
        for (auto [i, to] : llvm::enumerate(broadcast.getDimensions())) {
          if (tx::static_extent(input_extents[i]) != 1) place[i] = at[to];
        }
        return place;
      })
      .Case([&](tx::SliceOp slice) {
        for (size_t i = 0; i < place.size(); ++i) place[i] = at[i] * slice.getStrides()[i] + slice.getStarts()[i];
        return place;
      })
      .Case([&](tx::ReshapeOp reshape) { return reshaped(tx::extents(tx::tensor(reshape.getResult())), input_extents, at); })
      .Default([](Operation*) -> Exprs { llvm_unreachable("only_moves() excludes other ops"); });
}

}  // namespace

StageBody::StageBody(MLIRContext* context, unsigned rank, unsigned symbol_count, const IRMapping& operands, std::string& reason)
    : builder(context), symbols(symbol_count), location_(builder.getUnknownLoc()), rank_(rank), operands_(operands), reason_(reason) {
  block_ = builder.createBlock(&region_);
  for (unsigned i = 0; i < rank; ++i) block_->addArgument(builder.getI64Type(), location_);
}

Value StageBody::element(Value value, ArrayRef<AffineExpr> at) {
  auto key = std::make_pair(value, place_key(at));
  if (auto known = memo_.find(key); known != memo_.end()) return known->second;
  Value result = make(value, at);
  if (result) memo_[key] = result;
  return result;
}

// A read of an operand of the region, or of another stage's result.
Value StageBody::read(Value tensor, ArrayRef<AffineExpr> at, TypedAttr outside) {
  Type element = tx::tensor(operands_.lookup(tensor)).getElementType();
  // Of the indices that were read, those that this place uses.
  Exprs dims = leading_dims(), place;
  SmallVector<unsigned> gathers;
  for (auto [i, gathered] : llvm::enumerate(gathered_)) {
    unsigned dim = rank_ + static_cast<unsigned>(i);
    dims.push_back(builder.getAffineDimExpr(rank_ + static_cast<unsigned>(gathers.size())));
    bool is_used = false;
    for (AffineExpr index : at) {
      if (!index.isFunctionOfDim(dim)) continue;
      if (!llvm::isa<AffineDimExpr>(index)) return refuse("an index that is read is then moved");
      is_used = true;
    }
    if (is_used) gathers.push_back(gathered);
  }
  if (outside && !gathers.empty()) return refuse("gathered elements are padded");
  for (AffineExpr index : at) place.push_back(index.replaceDims(dims));
  auto map = AffineMap::get(rank_ + static_cast<unsigned>(gathers.size()), symbols, place, builder.getContext());
  Value argument = block_->insertArgument(rank_ + static_cast<unsigned>(reads.size()), scalar_type(element), location_);
  reads.push_back(operands_.lookup(tensor));
  accesses.push_back(AccessAttr::get(builder.getContext(), map, outside, gathers));
  Type compute = compute_type(element);
  return compute == argument.getType() ? argument : builder.create<arith::ExtFOp>(location_, compute, argument);
}

// A key for look-ups that does not depend on how many indices have been read.
Attribute StageBody::place_key(ArrayRef<AffineExpr> at) {
  constexpr unsigned any = 1 << 20;
  return AffineMapAttr::get(AffineMap::get(any, symbols, at, builder.getContext()));
}

// An index that is read here, as a dimension of places; null, with the reason, on failure.
AffineExpr StageBody::gathered(Value indices, ArrayRef<AffineExpr> at) {
  auto key = std::make_pair(indices, place_key(at));
  if (auto known = gathered_memo_.find(key); known != gathered_memo_.end()) return known->second;
  if (!operands_.contains(indices)) {
    refuse(tx::describe(indices.getDefiningOp()) + " in the region computes indices");
    return {};
  }
  if (!read(indices, at)) return {};
  gathered_.push_back(static_cast<unsigned>(reads.size()) - 1);
  return gathered_memo_[key] = builder.getAffineDimExpr(rank_ + static_cast<unsigned>(gathered_.size()) - 1);
}

Value StageBody::looked_up(Value tensor, ArrayRef<AffineExpr> at, unsigned dimension, Value indices, ArrayRef<AffineExpr> of_index) {
  Exprs place(at);
  auto constant = indices.getDefiningOp<tx::ConstantOp>();
  if (auto splat = constant ? llvm::dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr()) {
    place[dimension] = builder.getAffineConstantExpr(static_cast<int64_t>(splat.getSplatValue<APInt>().getZExtValue()));
  } else {
    place[dimension] = gathered(indices, of_index);
  }
  return place[dimension] ? element(tensor, place) : Value();
}

// A factor, converted to the type of the sums.
Value StageBody::widened(Value factor, Value tensor, Type type) {
  Type own = factor.getType();
  if (own == type) return factor;
  unsigned have = own.getIntOrFloatBitWidth(), want = type.getIntOrFloatBitWidth();
  if (llvm::isa<FloatType>(type) && llvm::isa<IntegerType>(own)) {
    return is_unsigned(tx::tensor(tensor).getElementType()) ? builder.create<arith::UIToFPOp>(location_, type, factor).getResult()
                                                            : builder.create<arith::SIToFPOp>(location_, type, factor).getResult();
  }
  if (llvm::isa<FloatType>(type)) {
    return have < want ? builder.create<arith::ExtFOp>(location_, type, factor).getResult()
                       : builder.create<arith::TruncFOp>(location_, type, factor).getResult();
  }
  if (have > want) return builder.create<arith::TruncIOp>(location_, type, factor);
  return is_unsigned(tx::tensor(tensor).getElementType()) ? builder.create<arith::ExtUIOp>(location_, type, factor).getResult()
                                                          : builder.create<arith::ExtSIOp>(location_, type, factor).getResult();
}

// The element, converted to the tensor's element type.
Value StageBody::to_storage(Value value, Type element) {
  Type type = scalar_type(element);
  return value.getType() == type ? value : builder.create<arith::TruncFOp>(location_, type, value);
}
Value StageBody::refuse(const Twine& why) {
  reason_ = why.str();
  return {};
}

Value StageBody::make(Value value, ArrayRef<AffineExpr> at) {
  if (operands_.contains(value)) return read(value, at);
  Operation* op = value.getDefiningOp();
  if (op == root) {
    if (!root_at.empty() && root_at != Exprs(at)) return refuse("results of " + tx::describe(op) + " are read at two places");
    root_at.assign(at.begin(), at.end());
    return result_of_root(at);
  }
  if (auto constant = llvm::dyn_cast<tx::ConstantOp>(op)) {
    auto splat = llvm::dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!splat) return refuse("a constant has several values");
    return constant_of(splat);
  }
  if (auto pad = llvm::dyn_cast<tx::PadOp>(op)) return element_of_pad(pad, at);
  if (op->hasTrait<tx::LookUp>()) {
    Exprs place = gathered_place(op, at);
    auto gather = llvm::dyn_cast<tx::GatherOp>(op);
    if (gather && gather.getBlocks()) return place.empty() ? Value() : decoded(gather.getInput(), *gather.getBlocks(), place);
    return place.empty() ? Value() : element(op->getOperand(0), place);
  }
  if (auto iota = llvm::dyn_cast<tx::IotaOp>(op)) return index_as_element(iota, at[iota.getDimension()]);
  if (auto concat = llvm::dyn_cast<tx::ConcatOp>(op)) return element_of_concat(concat, at);
  if (tx::is_elementwise(op)) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(element(operand, at));
      if (!operands.back()) return {};
    }
    ScopedDiagnosticHandler quiet(op->getContext(), [&](Diagnostic& diagnostic) { reason_ = diagnostic.str(); });
    return emit_scalar_body(builder, location_, op, operands);
  }
  if (!only_moves(op)) return refuse(tx::describe(op) + " is not an op of stages");
  return element(op->getOperand(0), moved(op, at));
}

// Where an op that reads indices finds its element; empty, with the reason, on failure.
Exprs StageBody::gathered_place(Operation* op, ArrayRef<AffineExpr> at) {
  Value indices = op->getOperand(1);
  size_t rank = static_cast<size_t>(tx::tensor(indices).getRank());
  if (auto gather = llvm::dyn_cast<tx::GatherOp>(op)) {
    size_t axis = static_cast<size_t>(gather.getAxis());
    Exprs place(at.take_front(axis));
    place.push_back(gathered(indices, at.slice(axis, rank)));
    llvm::append_range(place, at.drop_front(axis + rank));
    return place[axis] ? place : Exprs();
  }
  if (auto gather = llvm::dyn_cast<tx::GatherElementsOp>(op)) {
    Exprs place(at);
    place[gather.getAxis()] = gathered(indices, at);
    return place[gather.getAxis()] ? place : Exprs();
  }
  auto gather = llvm::cast<tx::GatherNdOp>(op);
  int64_t count = *tx::static_extent(tx::extents(tx::tensor(indices)).back());
  Exprs place(at.take_front(gather.getBatchDims()));
  for (int64_t i = 0; i < count; ++i) {
    Exprs row(at.take_front(rank - 1));
    row.push_back(builder.getAffineConstantExpr(i));
    place.push_back(gathered(indices, row));
    if (!place.back()) return {};
  }
  llvm::append_range(place, at.drop_front(rank - 1));
  return place;
}

// A computed input is computed at a place inside of it even for elements of the pad: at the index modulo its extent.
Value StageBody::element_of_pad(tx::PadOp pad, ArrayRef<AffineExpr> at) {
  Value input = pad.getInput();
  Exprs place;
  if (operands_.contains(input)) {
    for (auto [index, low] : llvm::zip_equal(at, pad.getLow())) place.push_back(index - low);
    return read(input, place, number(scalar_type(tx::element_of(input)), pad.getValue().convertToDouble()));
  }
  Value inside;
  for (auto [index, low, high, extent] : llvm::zip_equal(at, pad.getLow(), pad.getHigh(), tx::extents(tx::tensor(input)))) {
    if (low == 0 && high == 0) {
      place.push_back(index);
      continue;
    }
    if (!tx::is_positive(extent)) return refuse("a padded value is computed in the region and may be empty");
    place.push_back((index + (extent - 1) * low) % extent);
    Value here = computed(index);
    if (!here) return {};
    auto compare = [&](arith::CmpIPredicate predicate, AffineExpr bound) -> Value {
      return builder.create<arith::CmpIOp>(location_, predicate, here, computed(bound));
    };
    Value is_here = builder.create<arith::AndIOp>(location_, compare(arith::CmpIPredicate::sge, builder.getAffineConstantExpr(low)),
                                                  compare(arith::CmpIPredicate::slt, extent + low));
    inside = inside ? builder.create<arith::AndIOp>(location_, inside, is_here).getResult() : is_here;
  }
  Value own = element(input, place);
  if (!own || !inside) return own;
  Value around = builder.create<arith::ConstantOp>(location_, number(own.getType(), pad.getValue().convertToDouble()));
  return builder.create<arith::SelectOp>(location_, inside, own, around);
}

// Every input is read, at a place inside of it: at the index modulo its extent, which is the right place for the input that is selected.
Value StageBody::element_of_concat(tx::ConcatOp concat, ArrayRef<AffineExpr> at) {
  size_t axis = static_cast<size_t>(concat.getAxis());
  AffineExpr start = builder.getAffineConstantExpr(0);
  Value index, result;
  for (Value input : concat.getInputs()) {
    AffineExpr extent = tx::extents(tx::tensor(input))[axis];
    if (tx::static_extent(extent) == 0) continue;
    Exprs place(at);
    if (!tx::is_positive(extent)) {  // a part without elements has no place inside
      if (!operands_.contains(input)) return refuse("an input of a concat is computed in the region and may be empty");
      place[axis] = at[axis] - start;
    } else if (auto fixed = tx::static_extent(extent), known = tx::static_extent(start); fixed && known) {
      place[axis] = (at[axis] + (*fixed - *known % *fixed) % *fixed) % extent;
    } else {
      place[axis] = (at[axis] + start * (extent - 1)) % extent;
    }
    Value own = tx::is_positive(extent) ? element(input, place) : read(input, place, number(scalar_type(tx::element_of(input)), 0));
    if (!own) return {};
    if (result) {
      if (!index && !(index = computed(at[axis]))) return {};
      Value bound = builder.create<ExtentOp>(location_, builder.getI64Type(), AffineMapAttr::get(AffineMap::get(0, symbols, start)));
      Value is_behind = builder.create<arith::CmpIOp>(location_, arith::CmpIPredicate::sge, index, bound);
      own = builder.create<arith::SelectOp>(location_, is_behind, own, result);
    }
    result = own;
    start = start + extent;
  }
  return result ? result : refuse("a concat has no elements");
}

Value StageBody::index_as_element(tx::IotaOp iota, AffineExpr index) {
  Value value = computed(index);
  if (!value) return {};
  Type type = compute_type(tx::tensor(iota.getResult()).getElementType());
  if (llvm::isa<FloatType>(type)) return builder.create<arith::SIToFPOp>(location_, type, value);
  unsigned bits = type.getIntOrFloatBitWidth();
  return bits == 64 ? value : builder.create<arith::TruncIOp>(location_, type, value).getResult();
}

// The value of a place, which must not be negative where it is divided; null, with the reason, on failure.
Value StageBody::computed(AffineExpr index) {
  for (size_t d = rank_; d < rank_ + gathered_.size(); ++d) {
    if (index.isFunctionOfDim(static_cast<unsigned>(d))) return refuse("an index that is read is then computed with");
  }
  if (auto dim = llvm::dyn_cast<AffineDimExpr>(index)) return block_->getArgument(dim.getPosition());
  if (index.isSymbolicOrConstant())
    return builder.create<ExtentOp>(location_, builder.getI64Type(), AffineMapAttr::get(AffineMap::get(0, symbols, index)));
  auto binary = llvm::cast<AffineBinaryOpExpr>(index);
  Value a = computed(binary.getLHS()), b = computed(binary.getRHS());  // neither can fail
  switch (binary.getKind()) {
    case AffineExprKind::Add:
      return builder.create<arith::AddIOp>(location_, a, b);
    case AffineExprKind::Mul:
      return builder.create<arith::MulIOp>(location_, a, b);
    case AffineExprKind::Mod:
      return builder.create<arith::SubIOp>(location_, a,
                                           builder.create<arith::MulIOp>(location_, builder.create<arith::DivSIOp>(location_, a, b), b));
    default:
      return builder.create<arith::DivSIOp>(location_, a, b);
  }
}

Exprs StageBody::leading_dims() {
  Exprs dims;
  for (unsigned i = 0; i < rank_; ++i) dims.push_back(builder.getAffineDimExpr(i));
  return dims;
}

Value StageBody::constant_of(SplatElementsAttr splat) {
  Type element = splat.getElementType(), compute = compute_type(element);
  TypedAttr scalar;
  if (llvm::isa<FloatType>(element)) {
    bool lost;
    APFloat value = splat.getSplatValue<APFloat>();
    value.convert(llvm::cast<FloatType>(compute).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    scalar = FloatAttr::get(compute, value);
  } else {
    scalar = IntegerAttr::get(compute, splat.getSplatValue<APInt>());
  }
  return builder.create<arith::ConstantOp>(location_, scalar);
}

TypedAttr StageBody::number(Type type, double value) {
  if (llvm::isa<FloatType>(type)) return builder.getFloatAttr(type, value);
  return builder.getIntegerAttr(type, static_cast<int64_t>(value));
}

}  // namespace heddle::stage
