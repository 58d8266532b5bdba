// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_data.h"

#include "compiler/ir/read.h"

using namespace mlir;

namespace heddle::import {
namespace {

AffineExpr extent_number(const Node& node, int64_t value) {
  return node.builder.getAffineConstantExpr(value);
}

// The element of a vector, if it is known although others are not: in a concat of constants and other values.
std::optional<int64_t> known_at(Value value, int64_t index, unsigned depth = 0) {
  constexpr unsigned deepest = 16;
  Operation* op = value.getDefiningOp();
  if (!op || depth == deepest) return {};
  const Type element = tx::element_of(value);
  if (!element.isSignlessInteger(64) && !element.isSignlessInteger(32)) return {};
  if (llvm::isa<tx::ReshapeOp, tx::CastOp>(op)) return known_at(op->getOperand(0), index, depth + 1);
  if (DenseElementsAttr known = known_elements(value)) {
    if (index < 0 || index >= known.getNumElements()) return {};
    return known.isSplat() ? known.getSplatValue<APInt>().getSExtValue()
                           : known.getValues<APInt>()[static_cast<size_t>(index)].getSExtValue();
  }
  auto concat = llvm::dyn_cast<tx::ConcatOp>(op);
  if (!concat || tx::tensor(value).getRank() != 1) return {};
  for (Value part : concat.getInputs()) {
    if (!tx::tensor(part).hasStaticShape()) return {};
    const int64_t count = tx::tensor(part).getNumElements();
    if (index < count) return known_at(part, index, depth + 1);
    index -= count;
  }
  return {};
}

template <typename OpT>
Value combined(Node& node, Value a, Value b) {
  return node.make<OpT>(Node::type_of(a), a, b);
}

Value truth_of(Node& node, tx::CompareKind kind, Value a, Value b) {
  RankedTensorType type = Node::type_of(a);
  Value truth = node.make<tx::CompareOp>(tx::with_element_type(type, node.builder.getI1Type()), kind, a, b);
  return node.make<tx::CastOp>(type, truth);
}

// A symbol for each element; null elements of `known` are read.
std::vector<AffineExpr> read_unknown(Node& node, Value vector, std::vector<AffineExpr> known, const std::string& what) {
  SmallVector<int64_t> symbols(known.size(), -1);
  bool reads = false;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i]) continue;
    const std::string which = known.size() == 1 ? what : what + " " + std::to_string(i);
    known[i] = new_symbol(node, which);
    symbols[i] = llvm::cast<AffineSymbolExpr>(known[i]).getPosition();
    reads = true;
  }
  if (reads) node.builder.create<tx::ReadOp>(node.location(), vector, symbols, StringAttr());
  return known;
}

}  // namespace

Integers Integers::at(int64_t index) const {
  SmallVector<int64_t> start{index}, stride{1};
  return {*node_, node_->make<tx::SliceOp>(RankedTensorType::get({1}, node_->builder.getI64Type()), value_, start, stride)};
}

Integers Integers::rows(int64_t count) const {
  auto type = RankedTensorType::get({count, Node::type_of(value_).getShape()[0]}, node_->builder.getI64Type());
  return {*node_, node_->make<tx::BroadcastOp>(type, value_, ArrayRef<int64_t>{1})};
}

Integers Integers::columns(int64_t count) const {
  auto type = RankedTensorType::get({Node::type_of(value_).getShape()[0], count}, node_->builder.getI64Type());
  return {*node_, node_->make<tx::BroadcastOp>(type, value_, ArrayRef<int64_t>{0})};
}

Integers Integers::reduced(tx::ReduceKind kind) const {
  RankedTensorType type = Node::type_of(value_);
  const int64_t last = type.getRank() - 1;
  Value result = node_->make<tx::ReduceOp>(RankedTensorType::get(type.getShape().drop_back(), type.getElementType()), kind, value_,
                                           ArrayRef<int64_t>{last});
  return {*node_, last == 0 ? node_->reshape(result, {extent_number(*node_, 1)}) : result};
}

Integers Integers::where(const Integers& condition, const Integers& other) const {
  RankedTensorType type = Node::type_of(value_);
  Value truth = node_->make<tx::CompareOp>(tx::with_element_type(type, node_->builder.getI1Type()), tx::CompareKind::ne, condition.value_,
                                           number(0).value_);
  return {*node_, node_->make<tx::SelectOp>(type, truth, value_, other.value_)};
}

Integers Integers::number(int64_t value) const {
  return {*node_, node_->splat(Node::type_of(value_), static_cast<double>(value))};
}

Integers operator+(const Integers& a, const Integers& b) {
  return {*a.node_, combined<tx::AddOp>(*a.node_, a.value_, b.value_)};
}
Integers operator-(const Integers& a, const Integers& b) {
  return {*a.node_, combined<tx::SubOp>(*a.node_, a.value_, b.value_)};
}
Integers operator*(const Integers& a, const Integers& b) {
  return {*a.node_, combined<tx::MulOp>(*a.node_, a.value_, b.value_)};
}
Integers operator/(const Integers& a, const Integers& b) {
  return {*a.node_, combined<tx::DivOp>(*a.node_, a.value_, b.value_)};
}
Integers min(const Integers& a, const Integers& b) {
  return {*a.node_, combined<tx::MinOp>(*a.node_, a.value_, b.value_)};
}
Integers max(const Integers& a, const Integers& b) {
  return {*a.node_, combined<tx::MaxOp>(*a.node_, a.value_, b.value_)};
}
Integers operator<(const Integers& a, const Integers& b) {
  return {*a.node_, truth_of(*a.node_, tx::CompareKind::lt, a.value_, b.value_)};
}
Integers operator==(const Integers& a, const Integers& b) {
  return {*a.node_, truth_of(*a.node_, tx::CompareKind::eq, a.value_, b.value_)};
}

bool is_data(Node& node, int index) {
  if (!node.has_input(index)) return false;
  const Operand& operand = node.operand(index);
  if (operand.elements && !operand.is_matrix()) return false;
  if (operand.value) node.graph.need_elements(operand.value);
  return true;
}

Integers vector_of(Node& node, int index) {
  const Operand& operand = node.operand(index);
  if (operand.elements && !operand.is_matrix()) return {node, node.numbers(*operand.elements)};
  Value value = node.input(index);
  RankedTensorType type = Node::type_of(value);
  const std::string which = "input " + std::to_string(index);
  if (!llvm::isa<IntegerType>(type.getElementType())) node.refuse_inputs(which + " is not of integers");
  if (type.getRank() > 1) node.refuse_inputs(which + " has more than one dimension");
  if (!type.hasStaticShape())
    node.fail(which + " has a number of elements that is known only when the model runs, which is not supported",
              HEDDLE_STATUS_UNIMPLEMENTED);
  if (type.getNumElements() > static_cast<int64_t>(most_shape_elements))
    node.fail(which + " has " + std::to_string(type.getNumElements()) + " elements, above " + std::to_string(most_shape_elements));
  return {node, node.reshape(node.converted(value, node.builder.getI64Type()), {extent_number(node, type.getNumElements())})};
}

Integers counted(Node& node, int64_t count) {
  return {node, node.make<tx::IotaOp>(RankedTensorType::get({count}, node.builder.getI64Type()), node.builder.getI64IntegerAttr(0))};
}

Integers numbers_of(Node& node, ArrayRef<AffineExpr> extents) {
  return {node, node.numbers(extents)};
}

Integers joined(Node& node, ArrayRef<Integers> parts) {
  if (parts.size() == 1) return parts[0];
  SmallVector<Value> values;
  int64_t count = 0;
  for (const Integers& part : parts) {
    if (Node::type_of(part.value()).getNumElements() == 0) continue;
    values.push_back(part.value());
    count += Node::type_of(part.value()).getNumElements();
  }
  if (values.size() == 1) return {node, values[0]};
  return {node,
          node.make<tx::ConcatOp>(RankedTensorType::get({count}, node.builder.getI64Type()), values, node.builder.getI64IntegerAttr(0))};
}

AffineExpr new_symbol(Node& node, const std::string& what) {
  AffineExpr symbol;
  // A node may read several values of one kind.
  for (int copy = 1; !symbol && copy < 1000; ++copy)
    symbol = node.graph.symbols.read(node.describe() + ": " + what + (copy == 1 ? "" : " #" + std::to_string(copy)));
  if (!symbol) node.fail("the model has too many extents that depend on values of a call", HEDDLE_STATUS_UNIMPLEMENTED);
  return symbol;
}

std::vector<AffineExpr> read_extents(Node& node, const Integers& vector, const std::string& what) {
  std::vector<AffineExpr> known(static_cast<size_t>(Node::type_of(vector.value()).getNumElements()));
  for (size_t i = 0; i < known.size(); ++i) {
    auto number = known_at(vector.value(), static_cast<int64_t>(i));
    if (number && *number >= 0 && *number <= largest_extent) known[i] = extent_number(node, *number);
  }
  return read_unknown(node, vector.value(), std::move(known), what);
}

std::vector<AffineExpr> extents_from(Node& node, int index, const std::string& what) {
  if (!is_data(node, index)) return node.elements(index);
  return read_extents(node, vector_of(node, index), what);
}

Integers axes_from(Node& node, int index, int64_t rank) {
  Integers given = vector_of(node, index);
  if (Node::type_of(given.value()).getNumElements() > 0)
    node.graph.expected.push_back({given.value(), {}, extent_number(node, rank), "an axis"});
  return (given + given.number(rank)).where(given < given.number(0), given);
}

Integers is_axis(Node& node, const Integers& axes, int64_t rank) {
  const int64_t count = Node::type_of(axes.value()).getNumElements();
  Integers places = counted(node, rank);
  if (count == 0) return places.number(0);
  return (places.columns(count) == axes.rows(rank)).reduced(tx::ReduceKind::max);
}

namespace {

// For each of `rank` dimensions, how many axes are before it.
Integers axes_before(Node& node, const Integers& axes, int64_t rank) {
  const int64_t count = Node::type_of(axes.value()).getNumElements();
  Integers places = counted(node, rank);
  if (count == 0) return places.number(0);
  return (axes.rows(rank) < places.columns(count)).reduced(tx::ReduceKind::sum);
}

}  // namespace

std::vector<AffineExpr> without_axes(Node& node, ArrayRef<AffineExpr> extents, const Integers& axes) {
  const auto rank = static_cast<int64_t>(extents.size()), rest = rank - Node::type_of(axes.value()).getNumElements();
  if (rest < 0) node.fail("it has more axes than its input has dimensions");
  if (rest == 0) return {};
  // Dimension q of the result is the one that has q others, which are no axes, before it.
  Integers place = counted(node, rank) - axes_before(node, axes, rank), gone = is_axis(node, axes, rank);
  place = place.number(-1).where(gone, place);
  Integers hits = place.rows(rest) == counted(node, rest).columns(rank);
  return read_extents(node, (hits * numbers_of(node, extents).rows(rest)).reduced(tx::ReduceKind::sum), "extent of the result");
}

std::vector<AffineExpr> with_axes(Node& node, ArrayRef<AffineExpr> extents, const Integers& axes) {
  const auto rank = static_cast<int64_t>(extents.size()), to = rank + Node::type_of(axes.value()).getNumElements();
  Integers added = is_axis(node, axes, to), place = counted(node, to) - axes_before(node, axes, to);
  if (rank == 0) return std::vector<AffineExpr>(static_cast<size_t>(to), extent_number(node, 1));
  Integers hits = place.columns(rank) == counted(node, rank).rows(to);
  Integers given = (hits * numbers_of(node, extents).rows(to)).reduced(tx::ReduceKind::sum);
  return read_extents(node, added.number(1).where(added, given), "extent of the result");
}

Value reshape_to(Node& node, Value value, ArrayRef<AffineExpr> extents) {
  if (!node.are_equal(node.count_of(extents), node.count_of(Node::extents_of(value))))
    node.refuse_inputs("the new shape has a different number of elements");
  return node.reshape(value, extents);
}

Value gather_from(Node& node, Value value, int64_t axis, const Integers& start, const Integers& step, AffineExpr count) {
  Extents extents = Node::extents_of(value);
  extents[static_cast<size_t>(axis)] = count;
  RankedTensorType type = node.tensor_type({count}, node.builder.getI64Type());
  auto spread = [&](const Integers& one) { return node.broadcast(node.reshape(one.value(), {}), {count}); };
  Value places = node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0));
  places = node.make<tx::MulOp>(type, places, spread(step));
  places = node.make<tx::AddOp>(type, places, spread(start));
  return node.make<tx::GatherOp>(node.tensor_type(extents, Node::type_of(value).getElementType()), value, places,
                                 node.builder.getI64IntegerAttr(axis));
}

Value taken(Node& node, Value value, Value places, int64_t axis) {
  Extents extents = Node::extents_of(value);
  extents[static_cast<size_t>(axis)] = Node::extents_of(places)[0];
  return node.make<tx::GatherOp>(node.tensor_type(extents, Node::type_of(value).getElementType()), value, places,
                                 node.builder.getI64IntegerAttr(axis));
}

Value looked_up(Node& node, Value table, Value indices) {
  Extents extents = Node::extents_of(indices);
  llvm::append_range(extents, llvm::drop_begin(Node::extents_of(table)));
  return node.make<tx::GatherOp>(node.tensor_type(extents, Node::type_of(table).getElementType()), table, indices,
                                 node.builder.getI64IntegerAttr(0));
}

Value places_of_ones(Node& node, Value flags, const std::string& what) {
  Value sum =
      node.make<tx::ReduceOp>(RankedTensorType::get({}, node.builder.getI64Type()), tx::ReduceKind::sum, flags, ArrayRef<int64_t>{0});
  const Integers number(node, node.reshape(sum, {extent_number(node, 1)}));
  const AffineExpr count = read_extents(node, number, what).front();
  return node.make<tx::SortOp>(node.tensor_type({count}, node.builder.getI64Type()), flags, node.builder.getI64IntegerAttr(0),
                               node.builder.getUnitAttr());
}

}  // namespace heddle::import
