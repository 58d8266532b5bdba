// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See stage_emitter.h.
#include "compiler/targets/stage_emitter.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// The number added to the dimension, if the index is just that sum.
std::optional<int64_t> constant_shift(AffineExpr expression, unsigned dimension) {
  if (expression == getAffineDimExpr(dimension, expression.getContext())) return 0;
  auto sum = llvm::dyn_cast<AffineBinaryOpExpr>(expression);
  if (!sum || sum.getKind() != AffineExprKind::Add || sum.getLHS() != getAffineDimExpr(dimension, expression.getContext())) return {};
  return tx::static_extent(sum.getRHS());
}

// How much an index grows per lane in the dimension, if that is the same for all lanes; `lanes` is lowered to the number for which that holds. The
// first lane's index is a multiple of that number.
std::optional<AffineExpr> slope(AffineExpr expression, unsigned dimension, int64_t& lanes) {
  MLIRContext* context = expression.getContext();
  if (!expression.isFunctionOfDim(dimension)) return getAffineConstantExpr(0, context);
  if (llvm::isa<AffineDimExpr>(expression)) return getAffineConstantExpr(1, context);
  auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
  auto left = slope(binary.getLHS(), dimension, lanes), right = slope(binary.getRHS(), dimension, lanes);
  if (!left || !right) return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add) return *left + *right;
  if (binary.getKind() == AffineExprKind::Mul && binary.getRHS().isSymbolicOrConstant()) return *left * binary.getRHS();
  // Lanes that begin at a multiple of a divisor of it stay on one side of each multiple of the divisor, also when moved by another multiple.
  auto divisor = tx::static_extent(binary.getRHS());
  auto by = constant_shift(binary.getLHS(), dimension);
  if (!divisor || !by) return std::nullopt;
  while (*divisor % lanes != 0 || *by % lanes != 0) lanes /= 2;
  if (binary.getKind() == AffineExprKind::FloorDiv) return getAffineConstantExpr(0, context);
  return binary.getKind() == AffineExprKind::Mod ? std::optional(getAffineConstantExpr(1, context)) : std::nullopt;
}

// Smallest and largest value of an index over a domain, if known.
std::optional<std::pair<int64_t, int64_t>> range_of(AffineExpr expression, stage::DomainAttr domain) {
  using Range = std::pair<int64_t, int64_t>;
  if (auto constant = tx::static_extent(expression)) return Range{*constant, *constant};
  if (auto dim = llvm::dyn_cast<AffineDimExpr>(expression)) {
    if (dim.getPosition() >= domain.getRank()) return std::nullopt;
    auto extent = tx::static_extent(domain.getExtents().getResult(dim.getPosition()));
    return extent ? std::optional(Range{0, std::max<int64_t>(0, *extent - 1)}) : std::nullopt;
  }
  auto binary = llvm::dyn_cast<AffineBinaryOpExpr>(expression);
  auto left = binary ? range_of(binary.getLHS(), domain) : std::nullopt;
  auto right = binary ? range_of(binary.getRHS(), domain) : std::nullopt;
  if (!left || !right) return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add) return Range{left->first + right->first, left->second + right->second};
  int64_t by = right->first;
  if (by != right->second || by <= 0) return std::nullopt;
  if (binary.getKind() == AffineExprKind::Mul) return Range{left->first * by, left->second * by};
  if (binary.getKind() == AffineExprKind::FloorDiv)
    return Range{llvm::divideFloorSigned(left->first, by), llvm::divideFloorSigned(left->second, by)};
  return binary.getKind() == AffineExprKind::Mod ? std::optional(Range{0, by - 1}) : std::nullopt;
}

// Whether an index of this dimension of a tensor can be outside of it.
bool may_be_outside(AffineExpr index, AffineExpr extent, stage::DomainAttr domain) {
  auto dim = llvm::dyn_cast<AffineDimExpr>(index);
  if (dim && dim.getPosition() >= domain.getRank()) return false;  // an index that is read
  if (dim && domain.getExtents().getResult(dim.getPosition()) == extent) return false;
  auto range = range_of(index, domain);
  auto fixed = tx::static_extent(extent);
  return !range || !fixed || range->first < 0 || range->second >= *fixed;
}

Type like(KernelBuilder& k, Type scalar, int64_t lanes) {
  return lanes > 0 ? Type(k.vector_type(scalar, lanes)) : scalar;
}

}  // namespace

AffineExpr linear_place(ArrayRef<AffineExpr> place, RankedTensorType type) {
  AffineExpr result = getAffineConstantExpr(0, type.getContext());
  for (auto [index, extent] : llvm::zip_equal(place, tx::extents(type))) result = result * extent + index;
  return result;
}

std::optional<int64_t> slope_of(AffineExpr index, unsigned dimension) {
  int64_t one = 1;
  auto grows = slope(index, dimension, one);
  return grows ? tx::static_extent(*grows) : std::nullopt;
}

std::optional<AffineExpr> memory_step(Operation* stage, unsigned read, unsigned dimension, int64_t& lanes) {
  stage::AccessAttr access = stage::access_of(stage, read);
  stage::DomainAttr domain = stage::domain_of(stage);
  RankedTensorType type = tx::tensor(stage->getOperand(read));
  AffineExpr zero = getAffineConstantExpr(0, stage->getContext()), step = zero;
  for (unsigned gathered : stage::gathers_of(stage, read)) {
    if (memory_step(stage, gathered, dimension, lanes) != zero) return std::nullopt;
  }
  for (auto [index, extent] : llvm::zip_equal(access.getMap().getResults(), tx::extents(type))) {
    auto own = slope(index, dimension, lanes);
    if (!own) return std::nullopt;
    step = step * extent + *own;
    if (access.getOutside() && *own != zero && may_be_outside(index, extent, domain)) return std::nullopt;
  }
  return simplifyAffineExpr(step, 0, access.getMap().getNumSymbols());
}

// ------------------------------------------------------------------------------------------------------------- bodies

Value BodyEmitter::evaluate(AffineExpr expression, ArrayRef<Value> index) const {
  if (expression.isSymbolicOrConstant()) return k_.extent(expression);
  if (auto dim = llvm::dyn_cast<AffineDimExpr>(expression)) return index[dim.getPosition()];
  auto binary = llvm::cast<AffineBinaryOpExpr>(expression);
  Value a = evaluate(binary.getLHS(), index), b = evaluate(binary.getRHS(), index);
  switch (binary.getKind()) {
    case AffineExprKind::Add:
      return k_.add(a, b);
    case AffineExprKind::Mul:
      return k_.mul(a, b);
    case AffineExprKind::FloorDiv:
      return k_.div(a, b);  // places are not negative where they are divided
    case AffineExprKind::CeilDiv:
      return k_.ceil_div(a, b);
    default:
      return k_.rem(a, b);
  }
}

Element BodyEmitter::to_lanes(Element element, int64_t lanes) const {
  if (lanes == 0 || element.is_lanes) return element;
  return {k_.splat(element.value, lanes), true};
}

Element BodyEmitter::read(unsigned which, const BodyPlace& place) {
  if (auto found = known.find(which); found != known.end()) return found->second;
  return llvm::isa<BlockArgument>(stage_->getOperand(which)) ? load(which, place) : made_(which, place);
}

Element BodyEmitter::load(unsigned which, const BodyPlace& place) {
  stage::AccessAttr access = stage::access_of(stage_, which);
  RankedTensorType type = tx::tensor(stage_->getOperand(which));
  int64_t wanted = place.lanes;
  std::optional<AffineExpr> step = getAffineConstantExpr(0, type.getContext());
  if (wanted > 0) step = memory_step(stage_, which, place.lane_dimension, wanted);
  if (step && wanted < place.lanes) step.reset();
  std::optional<int64_t> fixed = step ? tx::static_extent(*step) : std::nullopt;
  Type scalar = stage::scalar_type(type.getElementType());
  if (!fixed || (*fixed != 0 && *fixed != 1)) {
    // One lane after the other. Masked lanes read what the first one does.
    BodyPlace one = place;
    one.lanes = 0;
    one.mask = {};
    Value vector = k_.constant(k_.vector_type(scalar, place.lanes), 0), first = place.index[place.lane_dimension];
    for (int64_t lane = 0; lane < place.lanes; ++lane) {
      Value at = k_.add(first, lane);
      if (place.mask && lane > 0) {
        Value counts = k_.builder.create<vector::ExtractOp>(k_.location, place.mask, lane);
        at = k_.make<arith::SelectOp>(counts, at, first);
      }
      one.index[place.lane_dimension] = at;
      vector = k_.builder.create<vector::InsertOp>(k_.location, load(which, one).value, vector, lane);
    }
    return {vector, true};
  }
  SmallVector<Value> index = place.index;
  llvm::append_range(index, gathered(which, place));
  bool is_lanes = place.lanes > 0 && *fixed == 1;
  Value inside = access.getOutside() ? is_inside(access.getMap().getResults(), type, place) : Value();
  if (!access.getGathers().empty()) {
    // Nothing is read of a tensor without elements. A symbol is at least 1.
    for (AffineExpr extent : tx::extents(type)) {
      if (tx::static_extent(extent).value_or(0) > 0 || llvm::isa<AffineSymbolExpr>(extent)) continue;
      Value is_there = k_.less(k_.index(0), k_.extent(extent));
      inside = inside ? k_.make<arith::AndIOp>(inside, is_there) : is_there;
    }
  }
  auto in_memory = [&] {
    Value base = k_.operand(llvm::cast<BlockArgument>(stage_->getOperand(which)).getArgNumber());
    Value at = evaluate(linear_place(access.getMap().getResults(), type), index);
    return k_.load(base, at, type.getElementType(), is_lanes ? place.lanes : 0, is_lanes ? place.mask : Value());
  };
  Value condition = inside;
  if (place.guard) condition = condition ? k_.make<arith::AndIOp>(condition, place.guard) : place.guard;
  if (!condition) return {in_memory(), is_lanes};
  Type loaded = like(k_, scalar, is_lanes ? place.lanes : 0);
  Value value = k_.branch(
      condition, TypeRange(loaded), [&] { return KernelBuilder::Values{in_memory()}; },
      [&] {
        TypedAttr outside = access.getOutside() ? access.getOutside() : k_.builder.getZeroAttr(scalar);
        if (auto vector = llvm::dyn_cast<VectorType>(loaded)) outside = SplatElementsAttr::get(vector, outside);
        return KernelBuilder::Values{k_.builder.create<arith::ConstantOp>(k_.location, outside)};
      })[0];
  return {value, is_lanes};
}

// Indices that are read, one for all lanes, each clamped to its dimension.
SmallVector<Value> BodyEmitter::gathered(unsigned which, const BodyPlace& place) {
  stage::AccessAttr access = stage::access_of(stage_, which);
  SmallVector<AffineExpr> extents = tx::extents(tx::tensor(stage_->getOperand(which)));
  BodyPlace one = place;
  one.lanes = 0;
  one.mask = {};
  SmallVector<Value> indices;
  unsigned first = access.getMap().getNumDims() - static_cast<unsigned>(access.getGathers().size());
  for (auto [i, read] : llvm::enumerate(stage::gathers_of(stage_, which))) {
    AffineExpr dim = getAffineDimExpr(first + static_cast<unsigned>(i), access.getContext());
    Value extent = k_.extent(extents[llvm::find(access.getMap().getResults(), dim) - access.getMap().getResults().begin()]);
    Value index = load(read, one).value;
    bool has_sign = !llvm::cast<IntegerType>(tx::tensor(stage_->getOperand(read)).getElementType()).isUnsigned();
    Type i64 = k_.builder.getI64Type();
    if (index.getType() != i64) index = has_sign ? k_.make<arith::ExtSIOp>(i64, index) : k_.make<arith::ExtUIOp>(i64, index);
    index = k_.make<arith::SelectOp>(k_.less(index, k_.index(0)), k_.add(index, extent), index);
    indices.push_back(k_.max(k_.min(index, k_.sub(extent, k_.index(1))), k_.index(0)));
  }
  return indices;
}

// Null if it always is.
Value BodyEmitter::is_inside(ArrayRef<AffineExpr> at, RankedTensorType type, const BodyPlace& place) {
  Value all;
  for (auto [expression, extent] : llvm::zip_equal(at, tx::extents(type))) {
    if (!may_be_outside(expression, extent, stage::domain_of(stage_))) continue;
    Value index = evaluate(expression, place.index);
    Value here =
        k_.make<arith::AndIOp>(k_.make<arith::CmpIOp>(arith::CmpIPredicate::sge, index, k_.index(0)), k_.less(index, k_.extent(extent)));
    all = all ? k_.make<arith::AndIOp>(all, here) : here;
  }
  return all;
}

SmallVector<Element> BodyEmitter::run(Block& body, unsigned first, unsigned count, ArrayRef<Element> more, const BodyPlace& place) {
  llvm::DenseMap<Value, Element> values;
  unsigned argument = 0;
  for (; argument + count + more.size() < body.getNumArguments(); ++argument) {
    BlockArgument own = body.getArgument(argument);
    if (own.use_empty()) continue;
    values[own] = {place.index[argument], false};
    if (place.lanes > 0 && argument == place.lane_dimension) {
      Value lanes = k_.splat(place.index[argument], place.lanes);
      values[own] = {k_.make<arith::AddIOp>(lanes, k_.iota(k_.builder.getI64Type(), place.lanes)), true};
    }
  }
  for (unsigned i = first; i < first + count; ++i) values[body.getArgument(argument++)] = read(i, place);
  for (const Element& element : more) values[body.getArgument(argument++)] = element;
  for (Operation& op : body.without_terminator()) values[op.getResult(0)] = clone(op, values, place.lanes);
  return llvm::map_to_vector(body.getTerminator()->getOperands(), [&](Value value) { return values.at(value); });
}

Element BodyEmitter::clone(Operation& op, const llvm::DenseMap<Value, Element>& values, int64_t lanes) {
  if (auto extent = llvm::dyn_cast<stage::ExtentOp>(op)) return {k_.extent(extent.getExpression().getResult(0)), false};
  bool is_lanes = llvm::any_of(op.getOperands(), [&](Value operand) { return values.at(operand).is_lanes; });
  OperationState state(k_.location, op.getName());
  for (Value operand : op.getOperands()) {
    Element element = values.at(operand);
    state.addOperands(is_lanes ? to_lanes(element, lanes).value : element.value);
  }
  state.addTypes(like(k_, op.getResult(0).getType(), is_lanes ? lanes : 0));
  state.addAttributes(op.getAttrs());
  return {k_.builder.create(state)->getResult(0), is_lanes};
}

}  // namespace heddle::targets
