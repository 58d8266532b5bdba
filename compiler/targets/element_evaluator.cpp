// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Index arithmetic of every data movement op, and loads in the cheapest form that an index allows: one scalar for all lanes, one vector, or a
// gather. See element_evaluator.h.
#include "compiler/targets/element_evaluator.h"

#include "compiler/stage/scalar_body.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::targets {

namespace {

bool same(const Coordinate& a, const Coordinate& b) {
  return a.base == b.base && a.step == b.step && a.lanes == b.lanes;
}

bool same(const Point& a, const Point& b) {
  if (a.lanes != b.lanes || a.mask != b.mask || a.at.size() != b.at.size()) return false;
  for (size_t i = 0; i < a.at.size(); ++i) {
    if (!same(a.at[i], b.at[i])) return false;
  }
  return true;
}

bool fits_i32(RankedTensorType type) {
  return type.hasStaticShape() && type.getNumElements() < (int64_t{1} << 31);
}

bool is_whole(AffineExpr from, AffineExpr to) {
  return from == to;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------ small pieces

Value ElementEvaluator::to_lanes(Value value, int64_t lanes) {
  if (lanes == 0 || llvm::isa<VectorType>(value.getType())) return value;
  return k_.splat(value, lanes);
}

Value ElementEvaluator::both(Value a, Value b) {
  if (!a || !b) return a ? a : b;
  return k_.make<arith::AndIOp>(a, b);
}

Value ElementEvaluator::offsets(int64_t step, int64_t lanes, Type element) {
  SmallVector<Attribute> values;
  for (int64_t i = 0; i < lanes; ++i) values.push_back(k_.builder.getIntegerAttr(element, i * step));
  return k_.builder.create<arith::ConstantOp>(k_.location, DenseElementsAttr::get(k_.vector_type(element, lanes), values));
}

Value ElementEvaluator::lane_values(const Coordinate& coordinate, int64_t lanes) {
  if (coordinate.lanes) return coordinate.lanes;
  Value base = k_.splat(coordinate.base, lanes);
  return coordinate.step == 0 ? base : k_.add(base, offsets(coordinate.step, lanes, k_.builder.getI64Type()));
}

Coordinate ElementEvaluator::shifted(const Coordinate& coordinate, Value by) {
  Coordinate result = coordinate;
  if (coordinate.lanes) {
    int64_t lanes = llvm::cast<VectorType>(coordinate.lanes.getType()).getNumElements();
    result.lanes = k_.add(coordinate.lanes, k_.splat(by, lanes));
  } else {
    result.base = k_.add(coordinate.base, by);
  }
  return result;
}

Coordinate ElementEvaluator::scaled(const Coordinate& coordinate, int64_t by) {
  if (by == 1) return coordinate;
  Coordinate result = coordinate;
  if (coordinate.lanes) {
    int64_t lanes = llvm::cast<VectorType>(coordinate.lanes.getType()).getNumElements();
    result.lanes = k_.mul(coordinate.lanes, k_.splat(k_.index(by), lanes));
  } else {
    result.base = k_.mul(coordinate.base, by);
    result.step = coordinate.step * by;
  }
  return result;
}

void ElementEvaluator::keep_inside(Coordinate& coordinate, Value extent, bool low, bool high, int64_t lanes, Bounds& bounds) {
  if (coordinate.is_uniform()) {
    Value zero = k_.index(0);
    if (low) {
      bounds.uniform = both(bounds.uniform, k_.make<arith::CmpIOp>(arith::CmpIPredicate::sge, coordinate.base, zero));
      coordinate.base = k_.max(coordinate.base, zero);
    }
    if (high) {
      bounds.uniform = both(bounds.uniform, k_.less(coordinate.base, extent));
      coordinate.base = k_.min(coordinate.base, k_.sub(extent, k_.index(1)));
    }
    return;
  }
  Value values = lane_values(coordinate, lanes);
  if (low) {
    Value zero = k_.splat(k_.index(0), lanes);
    bounds.lanes = both(bounds.lanes, k_.make<arith::CmpIOp>(arith::CmpIPredicate::sge, values, zero));
  }
  if (high) bounds.lanes = both(bounds.lanes, k_.less(values, k_.splat(extent, lanes)));
}

Value ElementEvaluator::select_inside(const Bounds& bounds, Value inside, Value outside, int64_t lanes) {
  if (bounds.lanes) {
    Value condition = bounds.lanes;
    if (bounds.uniform) condition = both(condition, k_.splat(bounds.uniform, lanes));
    return k_.make<arith::SelectOp>(condition, to_lanes(inside, lanes), to_lanes(outside, lanes));
  }
  if (!bounds.uniform) return inside;
  if (llvm::isa<VectorType>(inside.getType()) || llvm::isa<VectorType>(outside.getType())) {
    inside = to_lanes(inside, lanes);
    outside = to_lanes(outside, lanes);
  }
  return k_.make<arith::SelectOp>(bounds.uniform, inside, outside);
}

// ---------------------------------------------------------------------------------------------------------- offsets

ElementEvaluator::Linear ElementEvaluator::linear(RankedTensorType type, const Point& point) {
  Linear result{k_.index(0), 0, {}};
  AffineExpr stride = getAffineConstantExpr(1, type.getContext());
  auto extents = tx::extents(type);
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    const Coordinate& coordinate = point.at[d];
    Value stride_value = k_.extent(stride);
    auto fixed = llvm::dyn_cast<AffineConstantExpr>(stride);
    if (coordinate.lanes) {
      Value scaled_lanes = k_.mul(coordinate.lanes, k_.splat(stride_value, point.lanes));
      result.lanes = result.lanes ? k_.add(result.lanes, scaled_lanes) : scaled_lanes;
    } else {
      result.base = k_.add(result.base, k_.mul(coordinate.base, stride_value));
      if (coordinate.step != 0 && fixed) result.step += coordinate.step * fixed.getValue();
      if (coordinate.step != 0 && !fixed) {
        Value scaled_lanes = k_.mul(offsets(coordinate.step, point.lanes, k_.builder.getI64Type()), k_.splat(stride_value, point.lanes));
        result.lanes = result.lanes ? k_.add(result.lanes, scaled_lanes) : scaled_lanes;
      }
    }
    stride = stride * extents[d];
  }
  if (result.lanes && result.step != 0) {
    result.lanes = k_.add(result.lanes, offsets(result.step, point.lanes, k_.builder.getI64Type()));
    result.step = 0;
  }
  return result;
}

Point ElementEvaluator::delinearize(RankedTensorType type, const Linear& offset, const Point& point) {
  Point result;
  result.lanes = point.lanes;
  result.mask = point.mask;
  result.at.resize(type.getRank());
  auto extents = tx::extents(type);
  bool uniform = !offset.lanes && offset.step == 0;
  bool narrow = fits_i32(type);
  Type wide_type = k_.builder.getI64Type(), lane_type = narrow ? Type(k_.builder.getI32Type()) : wide_type;
  Value rest = offset.base;
  if (!uniform) {
    rest = lane_values(Coordinate{offset.base, offset.lanes ? 0 : offset.step, {}}, point.lanes);
    if (offset.lanes) rest = k_.add(rest, offset.lanes);
    if (narrow) rest = k_.make<arith::TruncIOp>(k_.vector_type(lane_type, point.lanes), rest);
  }
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    Value extent = k_.extent(extents[d]);
    if (!uniform) {
      if (narrow) extent = k_.make<arith::TruncIOp>(lane_type, extent);
      extent = k_.splat(extent, point.lanes);
    }
    Value here = d == 0 ? rest : k_.rem(rest, extent);
    if (d > 0) rest = k_.div(rest, extent);
    if (uniform) {
      result.at[d].base = here;
    } else {
      result.at[d].lanes = narrow ? k_.make<arith::ExtUIOp>(k_.vector_type(wide_type, point.lanes), here) : here;
    }
  }
  return result;
}

// ------------------------------------------------------------------------------------------------------------ memory

Value ElementEvaluator::load(Value base, Type element, const Linear& offset, const Point& point) {
  OpBuilder& builder = k_.builder;
  bool as_bits = element.isBF16();  // x86-64-v4 has no instruction for bf16; its bits are the upper half of an f32
  Type loaded_type = as_bits ? Type(builder.getIntegerType(16)) : element;
  Value loaded;
  if (!offset.lanes && offset.step == 0) {
    loaded = k_.load(base, offset.base, loaded_type);
  } else if (!offset.lanes && offset.step == 1) {
    loaded = k_.load(base, offset.base, loaded_type, point.lanes, point.mask);
  } else {
    bool narrow = !offset.lanes && std::abs(offset.step) * point.lanes < (int64_t{1} << 30);
    Value lanes =
        offset.lanes ? offset.lanes : offsets(offset.step, point.lanes, narrow ? Type(builder.getI32Type()) : Type(builder.getI64Type()));
    loaded = k_.gather(base, offset.base, lanes, loaded_type, point.mask);
  }
  Type computed = stage::compute_type(element);
  auto like = [&](Type type) -> Type {
    if (auto vector = llvm::dyn_cast<VectorType>(loaded.getType())) return vector.clone(type);
    return type;
  };
  if (as_bits) {
    Type i32 = like(builder.getI32Type());
    Value wide = k_.make<arith::ExtUIOp>(i32, loaded);
    return k_.make<arith::BitcastOp>(like(computed), k_.make<arith::ShLIOp>(wide, k_.constant(i32, 16)));
  }
  if (element.isF16()) return k_.make<arith::ExtFOp>(like(computed), loaded);
  return loaded;
}

void ElementEvaluator::store(Value elements, Value base, RankedTensorType type, const Point& point) {
  Linear offset = linear(type, point);
  Type element = type.getElementType();
  elements = to_lanes(elements, point.lanes);
  auto like = [&](Type wanted) -> Type {
    if (auto vector = llvm::dyn_cast<VectorType>(elements.getType())) return vector.clone(wanted);
    return wanted;
  };
  if (element.isF16()) {
    elements = k_.make<arith::TruncFOp>(like(element), elements);
  } else if (element.isBF16()) {
    // Round to nearest, ties to even, on the bits; NaN stays NaN.
    Type i32 = like(k_.builder.getI32Type());
    Value bits = k_.make<arith::BitcastOp>(i32, elements);
    Value upper = k_.make<arith::ShRUIOp>(bits, k_.constant(i32, 16));
    Value odd = k_.make<arith::AndIOp>(upper, k_.constant(i32, 1));
    Value rounded = k_.make<arith::AddIOp>(bits, k_.make<arith::AddIOp>(odd, k_.constant(i32, 0x7fff)));
    rounded = k_.make<arith::ShRUIOp>(rounded, k_.constant(i32, 16));
    Value nan = k_.make<arith::OrIOp>(upper, k_.constant(i32, 0x40));
    Value is_nan = k_.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, elements, elements);
    elements = k_.make<arith::TruncIOp>(like(k_.builder.getIntegerType(16)), k_.make<arith::SelectOp>(is_nan, nan, rounded));
  }
  k_.store(elements, base, offset.base, point.lanes > 0 ? point.mask : Value());
}

// --------------------------------------------------------------------------------------------------------------- ops

SmallVector<Value> ElementEvaluator::elements(ValueRange tensors, const Point& point) {
  memo_.clear();
  SmallVector<Value> results;
  for (Value value : tensors) {
    Value result = at(value, point);
    results.push_back(result ? to_lanes(result, point.lanes) : Value());
  }
  memo_.clear();
  return results;
}

Value ElementEvaluator::compute(Operation* op, llvm::function_ref<Value(Value)> operand) {
  SmallVector<Value> operands;
  bool vector = false;
  int64_t lanes = 0;
  for (Value input : op->getOperands()) {
    Value value = operand(input);
    if (!value) return {};
    if (auto type = llvm::dyn_cast<VectorType>(value.getType())) {
      vector = true;
      lanes = type.getNumElements();
    }
    operands.push_back(value);
  }
  if (vector) {
    for (Value& value : operands) value = to_lanes(value, lanes);
  }
  return stage::emit_scalar_body(k_.builder, k_.location, op, operands);
}

Value ElementEvaluator::at(Value value, const Point& point) {
  if (auto known = computed_.find(value); known != computed_.end()) return known->second;
  for (auto& [known_point, result] : memo_[value]) {
    if (same(known_point, point)) return result;
  }
  Value result;
  if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
    result = load(k_.operand(argument.getArgNumber()), tx::tensor(value).getElementType(), linear(tx::tensor(value), point), point);
  } else {
    Operation* op = value.getDefiningOp();
    if (tx::is_elementwise(op)) {
      result = compute(op, [&](Value operand) { return at(operand, point); });
    } else {
      result = llvm::TypeSwitch<Operation*, Value>(op)
                   .Case([&](tx::ConstantOp constant_op) { return constant(constant_op, linear(tx::tensor(value), point), point); })
                   .Case([&](tx::ReshapeOp reshape) { return at_linear(reshape.getInput(), linear(tx::tensor(value), point), point); })
                   .Case([&](tx::TransposeOp transpose) {
                     Point source = point;
                     for (auto [i, p] : llvm::enumerate(transpose.getPermutation())) source.at[p] = point.at[i];
                     return at(transpose.getInput(), source);
                   })
                   .Case([&](tx::BroadcastOp broadcast) {
                     Point source = point;
                     source.at.clear();
                     auto from = tx::tensor(broadcast.getInput());
                     for (auto [i, d] : llvm::enumerate(broadcast.getDimensions())) {
                       bool repeated = from.getDimSize(i) == 1 && tx::tensor(value).getDimSize(d) != 1;
                       source.at.push_back(repeated ? Coordinate{k_.index(0), 0, {}} : point.at[d]);
                     }
                     return at(broadcast.getInput(), source);
                   })
                   .Case([&](tx::SliceOp slice) {
                     Point source = point;
                     for (size_t d = 0; d < source.at.size(); ++d) {
                       source.at[d] = scaled(source.at[d], slice.getStrides()[d]);
                       if (slice.getStarts()[d] != 0) source.at[d] = shifted(source.at[d], k_.index(slice.getStarts()[d]));
                     }
                     return at(slice.getInput(), source);
                   })
                   .Case([&](tx::PadOp op_pad) { return pad(op_pad, point); })
                   .Case([&](tx::ConcatOp op_concat) { return concat(op_concat, point); })
                   .Default([&](Operation* other) -> Value {
                     other->emitError() << other->getName() << " is not supported at this position in a region";
                     return {};
                   });
    }
  }
  memo_[value].push_back({point, result});
  return result;
}

Value ElementEvaluator::at_linear(Value value, const Linear& offset, const Point& point) {
  if (auto argument = llvm::dyn_cast<BlockArgument>(value)) {
    return load(k_.operand(argument.getArgNumber()), tx::tensor(value).getElementType(), offset, point);
  }
  Operation* op = value.getDefiningOp();
  if (tx::is_elementwise(op)) {
    return compute(op, [&](Value operand) { return at_linear(operand, offset, point); });
  }
  if (auto reshape = llvm::dyn_cast<tx::ReshapeOp>(op)) return at_linear(reshape.getInput(), offset, point);
  if (auto constant_op = llvm::dyn_cast<tx::ConstantOp>(op)) return constant(constant_op, offset, point);
  return at(value, delinearize(tx::tensor(value), offset, point));
}

Value ElementEvaluator::constant(tx::ConstantOp op, const Linear& offset, const Point& point) {
  auto dense = llvm::cast<DenseElementsAttr>(op.getValue());
  Type element = dense.getElementType(), computed = stage::compute_type(element);
  if (dense.isSplat()) {
    TypedAttr value;
    if (llvm::isa<FloatType>(element)) {
      APFloat number = dense.getSplatValue<APFloat>();
      bool lost;
      number.convert(llvm::cast<FloatType>(computed).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      value = FloatAttr::get(computed, number);
    } else {
      value = IntegerAttr::get(computed, dense.getSplatValue<APInt>());
    }
    return k_.builder.create<arith::ConstantOp>(k_.location, value);
  }
  return load(k_.table(dense), element, offset, point);
}

Value ElementEvaluator::pad(tx::PadOp op, const Point& point) {
  Point source = point;
  auto from = tx::tensor(op.getInput());
  auto extents = tx::extents(from);
  Bounds bounds;
  for (int64_t d = 0; d < from.getRank(); ++d) {
    int64_t low = op.getLow()[d], high = op.getHigh()[d];
    if (low == 0 && high == 0) continue;
    source.at[d] = shifted(point.at[d], k_.index(-low));
    keep_inside(source.at[d], k_.extent(extents[d]), low > 0, high > 0, point.lanes, bounds);
  }
  Value fill = k_.constant(stage::compute_type(from.getElementType()), op.getValue().convertToDouble());
  if (from.hasStaticShape() && from.getNumElements() == 0) return fill;
  source.mask = both(source.mask, bounds.lanes);
  Value inside = at(op.getInput(), source);
  return inside ? select_inside(bounds, inside, fill, point.lanes) : Value();
}

Value ElementEvaluator::concat(tx::ConcatOp op, const Point& point) {
  int64_t axis = static_cast<int64_t>(op.getAxis());
  Value start = k_.index(0), result;
  auto chosen = chosen_.find(op);
  size_t last = op.getInputs().size() - 1;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    Value extent = k_.extent(tx::extents(tx::tensor(input))[axis]);
    if (chosen == chosen_.end() || chosen->second == i) {
      Point source = point;
      source.at[axis] = shifted(point.at[axis], k_.sub(k_.index(0), start));
      if (chosen != chosen_.end()) return at(input, source);
      if (tx::tensor(input).getDimSize(axis) != 0) {
        Bounds bounds;
        keep_inside(source.at[axis], extent, i > 0, i < last, point.lanes, bounds);
        source.mask = both(source.mask, bounds.lanes);
        Value inside = at(input, source);
        if (!inside) return {};
        result = result ? select_inside(bounds, inside, result, point.lanes) : inside;
      }
    }
    start = k_.add(start, extent);
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------------- analysis

namespace {

// Each value once, regardless of how many ops read it.
class Flattening {
 public:
  Flattening(unsigned dimensions, tx::ConcatOp chosen_concat) : count(dimensions), chosen(chosen_concat) {}

  bool can_flatten(Value value) {
    auto known = known_.find(value);
    if (known != known_.end()) return known->second;
    bool result = look(value);
    known_[value] = result;
    return result;
  }

 private:
  bool look(Value value);

  const unsigned count;
  const tx::ConcatOp chosen;
  llvm::DenseMap<Value, bool> known_;
};

bool Flattening::look(Value value) {
  if (count <= 1 || llvm::isa<BlockArgument>(value)) return true;
  Operation* op = value.getDefiningOp();
  int64_t rank = tx::tensor(value).getRank(), first = rank - static_cast<int64_t>(count);
  if (tx::is_elementwise(op)) {
    return llvm::all_of(op->getOperands(), [&](Value operand) { return can_flatten(operand); });
  }
  return llvm::TypeSwitch<Operation*, bool>(op)
      .Case([&](tx::ConstantOp) { return true; })
      .Case([&](tx::ReshapeOp) { return true; })  // uses the offset
      .Case([&](tx::TransposeOp transpose) {
        for (int64_t d = first; d < rank; ++d) {
          if (transpose.getPermutation()[d] != d) return false;
        }
        return can_flatten(transpose.getInput());
      })
      .Case([&](tx::BroadcastOp broadcast) {
        auto from = tx::tensor(broadcast.getInput());
        auto from_extents = tx::extents(from), to_extents = tx::extents(tx::tensor(value));
        unsigned repeated = 0, whole = 0;
        for (int64_t d = first; d < rank; ++d) {
          auto position = llvm::find(broadcast.getDimensions(), d);
          if (position == broadcast.getDimensions().end()) {
            ++repeated;
            continue;
          }
          int64_t i = position - broadcast.getDimensions().begin();
          if (from.getDimSize(i) == 1 && tx::tensor(value).getDimSize(d) != 1) {
            ++repeated;
          } else {
            whole += is_whole(from_extents[i], to_extents[d]);
          }
        }
        if (repeated == count) return true;
        return whole == count && can_flatten(broadcast.getInput());
      })
      .Case([&](tx::SliceOp slice) {
        auto from_extents = tx::extents(tx::tensor(slice.getInput())), to_extents = tx::extents(tx::tensor(value));
        if (slice.getStrides()[first] != 1) return false;
        for (int64_t d = first + 1; d < rank; ++d) {
          if (slice.getStarts()[d] != 0 || slice.getStrides()[d] != 1 || !is_whole(from_extents[d], to_extents[d])) return false;
        }
        return can_flatten(slice.getInput());
      })
      .Case([&](tx::PadOp pad) {
        for (int64_t d = first; d < rank; ++d) {
          if (pad.getLow()[d] != 0 || pad.getHigh()[d] != 0) return false;
        }
        return can_flatten(pad.getInput());
      })
      .Case([&](tx::ConcatOp concat) {
        int64_t axis = static_cast<int64_t>(concat.getAxis());
        if (concat == chosen ? axis > first : axis >= first) return false;
        return llvm::all_of(concat.getInputs(), [&](Value input) { return can_flatten(input); });
      })
      .Default([](Operation*) { return false; });
}

}  // namespace

bool can_flatten(Value value, unsigned count, tx::ConcatOp chosen) {
  return Flattening(count, chosen).can_flatten(value);
}

}  // namespace heddle::targets
