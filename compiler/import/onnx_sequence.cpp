// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators along one dimension: products up to each element, the largest element, norms, reversed and replaced parts; and determinants.
#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_checks.h"

using namespace mlir;

namespace heddle::import {
namespace {

using tx::CompareKind;

// The elements `distance` further to the front along the axis; `filling` where there are none.
Value shifted(Node& node, Value value, int64_t axis, int64_t distance, double filling) {
  RankedTensorType type = Node::type_of(value);
  Extents extents = tx::extents(type), padded = extents;
  const auto rank = static_cast<size_t>(type.getRank());
  SmallVector<int64_t> low(rank, 0), high(rank, 0), starts(rank, 0), strides(rank, 1);
  low[static_cast<size_t>(axis)] = distance;
  padded[axis] = node.computed(sum(extents[axis], node.builder.getAffineConstantExpr(distance)));
  Value whole = node.make<tx::PadOp>(node.tensor_type(padded, type.getElementType()), value, low, high, llvm::APFloat(filling));
  return node.builder.createOrFold<tx::SliceOp>(node.location(), type, whole, starts, strides);
}

Value reversed(Node& node, Value value, int64_t axis) {
  RankedTensorType type = Node::type_of(value);
  Arithmetic m(node);
  const Extents line{tx::extents(type)[axis]};
  Value place = m.iota(line, 0, node.builder.getI64Type());
  Value last = m.sub(m.extent(line[0], place), m.number(place, 1));
  return node.make<tx::GatherOp>(type, value, m.sub(last, place), axis);
}

// Along an axis of known extent, the products of 2, 4, 8, ... elements up to each one. Otherwise each product goes through the whole axis.
Value products_along(Node& node, Value x, int64_t axis) {
  const RankedTensorType type = Node::type_of(x);
  const bool exclusive = node.integer("exclusive", 0) != 0, backward = node.integer("reverse", 0) != 0;
  const Extents extents = tx::extents(type);
  Arithmetic m(node);
  if (auto size = tx::static_extent(extents[axis])) {
    Value result = backward ? reversed(node, x, axis) : x;
    if (exclusive) result = shifted(node, result, axis, 1, 1.0);
    for (int64_t distance = 1; distance < *size; distance *= 2) result = m.mul(result, shifted(node, result, axis, distance, 1.0));
    return backward ? reversed(node, result, axis) : result;
  }
  Extents square = extents;  // the factors are the dimension behind the axis
  square.insert(square.begin() + axis + 1, extents[axis]);
  SmallVector<int64_t> places;
  for (int64_t i = 0; i <= type.getRank(); ++i) {
    if (i != axis) places.push_back(i);
  }
  const Extents matrix{extents[axis], extents[axis]};
  Value of_result = m.iota(matrix, 0, node.builder.getI64Type()), of_factor = m.iota(matrix, 1, node.builder.getI64Type());
  const CompareKind before = exclusive ? CompareKind::lt : CompareKind::le, behind = exclusive ? CompareKind::gt : CompareKind::ge;
  Value counts = m.compare(backward ? behind : before, of_factor, of_result);
  Value factors = m.spread(x, square, places);
  factors = m.select(m.spread(counts, square, {axis, axis + 1}), factors, m.number(factors, 1));
  return node.make<tx::ReduceOp>(type, tx::ReduceKind::prod, factors, ArrayRef<int64_t>{axis + 1});
}

// If the axis is data, the products along all of them are computed.
void cum_prod(Node& node) {
  Value x = node.input(0);
  const RankedTensorType type = Node::type_of(x);
  const Extents extents = tx::extents(type);
  const int64_t rank = type.getRank();
  if (type.getElementType().isInteger(1)) node.refuse_inputs("bools have no products");
  if (rank == 0) node.fail("its input is a scalar");
  if (node.operand(1).elements) {
    const std::vector<int64_t> given = node.integers(1);
    if (given.size() != 1) node.fail("the axis has " + std::to_string(given.size()) + " elements; 1 was expected");
    Value result = products_along(node, x, node.axis(given[0], rank));
    return node.set_result(result == x ? node.reshape(x, extents) : result);
  }
  Value axis = node.input(1);
  if (!llvm::isa<IntegerType>(Node::type_of(axis).getElementType())) node.refuse_inputs("the axis is no integer");
  if (!Node::type_of(axis).hasStaticShape() || Node::type_of(axis).getNumElements() != 1) node.refuse_inputs("it needs 1 axis");
  node.graph.need_elements(axis);
  axis = node.converted(node.reshape(axis, {}), node.builder.getI64Type());
  const RankedTensorType axes = node.tensor_type({node.builder.getAffineConstantExpr(rank)}, node.builder.getI64Type());
  expect_inside(node, node.splat(axes, 0), 0, axis);
  Arithmetic m(node);
  axis = m.select(m.compare(CompareKind::lt, axis, m.number(axis, 0)), m.add(axis, m.number(axis, static_cast<double>(rank))), axis);
  Value result;
  for (int64_t i = 0; i < rank; ++i) {
    Value along = products_along(node, x, i), is_this = m.compare(CompareKind::eq, axis, m.number(axis, static_cast<double>(i)));
    result = result ? m.select(node.broadcast(is_this, extents), along, result) : along;
  }
  node.set_result(result == x ? node.reshape(x, extents) : result);
}

// 1 at the first largest element along the axis, 0 elsewhere. Before opset 13 along all dimensions from the axis on, as one.
void hardmax(Node& node) {
  Value x = node.input(0);
  Extents own = Node::extents_of(x);
  const auto rank = static_cast<int64_t>(own.size());
  int64_t axis = node.integer("axis", node.opset() < 13 ? 1 : -1);
  if (node.opset() < 13) {
    if (axis != rank) axis = node.axis(axis, rank);
    ArrayRef<AffineExpr> all(own);
    x = node.reshape(x, {node.count_of(all.take_front(axis)), node.count_of(all.drop_front(axis))});
    axis = 1;
  } else {
    axis = node.axis(axis, rank);
  }
  RankedTensorType type = Node::type_of(x);
  Extents extents = tx::extents(type), kept = extents, left = extents;
  left.erase(left.begin() + axis);
  kept[axis] = node.builder.getAffineConstantExpr(1);
  const Type i64 = node.builder.getI64Type();
  Value first = node.make<tx::ArgReduceOp>(node.tensor_type(left, i64), tx::ReduceKind::max, x, axis, false);
  Arithmetic m(node);
  Value is_first = m.compare(CompareKind::eq, m.iota(extents, axis, i64), node.broadcast(node.reshape(first, kept), extents));
  node.set_result(node.reshape(m.select(is_first, m.number(x, 1), m.number(x, 0)), own));
}

// x divided by its norm along the axis; 0 where that is 0.
void lp_normalization(Node& node) {
  Value own = node.input(0);
  RankedTensorType type = Node::type_of(own);
  if (!llvm::isa<FloatType>(type.getElementType())) node.refuse_inputs("its input needs elements that are floats");
  const int64_t axis = node.axis(node.integer("axis", -1), type.getRank()), p = node.integer("p", 2);
  if (p != 1 && p != 2) node.fail("p is " + std::to_string(p) + ", and has to be 1 or 2");
  Arithmetic m(node);
  Value x = type.getElementType().isF64() ? own : node.converted(own, node.builder.getF32Type());
  Value norm = m.reduce(tx::ReduceKind::sum, p == 1 ? m.abs(x) : m.mul(x, x), {axis});
  if (p == 2) norm = m.sqrt(norm);
  norm = node.broadcast(norm, tx::extents(type));
  Value zero = m.number(norm, 0);
  Value result = m.select(m.compare(CompareKind::eq, norm, zero), zero, m.div(x, norm));
  node.set_result(node.converted(result, type.getElementType()));
}

// The first elements along the time axis, as many as the sequence has, from the last to the first of them.
void reverse_sequence(Node& node) {
  Value x = node.input(0), lengths = node.input(1);
  const Extents extents = Node::extents_of(x), of_lengths = Node::extents_of(lengths);
  const auto rank = static_cast<int64_t>(extents.size());
  if (rank < 2) node.fail("its input needs rank 2 or more, has " + std::to_string(rank));
  const int64_t batch = node.axis(node.integer("batch_axis", 1), rank), time = node.axis(node.integer("time_axis", 0), rank);
  if (batch == time || batch > 1 || time > 1) node.fail("batch_axis and time_axis are not 0 and 1, or 1 and 0");
  if (of_lengths.size() != 1 || !node.are_equal(extents[batch], of_lengths[0]))
    node.refuse_inputs("sequence_lens does not have one element for each index of the batch axis");
  Arithmetic m(node);
  const Type i64 = node.builder.getI64Type();
  lengths = node.converted(node.with_extents(lengths, {extents[batch]}), i64);
  const Extents pair{extents[0], extents[1]};
  Value place = m.iota(pair, time, i64), length = m.spread(lengths, pair, {batch});
  // a length outside is an error of the call
  Value last = m.sub(length, m.number(length, 1)), zero = m.number(place, 0);
  expect_inside(node, x, time, m.select(m.compare(CompareKind::eq, length, zero), zero, last));
  Value source = m.select(m.compare(CompareKind::lt, place, length), m.sub(last, place), place);
  node.set_result(
      node.make<tx::GatherElementsOp>(Node::type_of(x), x, m.spread(source, extents, {0, 1}), node.builder.getI64IntegerAttr(time)));
}

// A cache of sequences in which an update replaces as many elements as it has, from an index for each batch on. It is a scatter, which leaves the other
// elements as they are if the result has the cache's memory.
void tensor_scatter(Node& node) {
  Value cache = node.input(0), update = node.input(1);
  const RankedTensorType type = Node::type_of(cache);
  const Extents extents = tx::extents(type);
  Extents given = Node::extents_of(update);
  const int64_t axis = node.axis(node.integer("axis", -2), type.getRank());
  if (axis == 0) node.fail("axis is 0, the dimension of batches");
  if (Node::type_of(update).getElementType() != type.getElementType()) node.refuse_inputs("the element types of cache and update differ");
  bool fits = given.size() == extents.size();
  for (size_t i = 0; fits && i < extents.size(); ++i) fits = static_cast<int64_t>(i) == axis || node.are_equal(extents[i], given[i]);
  if (!fits) node.refuse_inputs("the update does not fit the cache");
  const AffineExpr count = given[axis], size = extents[axis];
  if (!node.graph.symbols.require(size, count, node.describe()) || at_least(size, count) == false)
    node.refuse_inputs("the update is longer than the cache");
  given = extents;
  given[axis] = count;
  update = node.with_extents(update, given);
  const std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular") node.fail("mode '" + mode + "' is neither linear nor circular");
  Arithmetic m(node);
  const Type i64 = node.builder.getI64Type();
  // Of each update, its place in the cache.
  const bool is_single = extents[0] == node.builder.getAffineConstantExpr(1);
  const Extents pair{extents[0], count};
  Value place = m.iota(pair, 1, i64);
  if (node.has_input(2)) {
    Value first = node.converted(node.input(2), i64);
    const Extents own = Node::extents_of(first);
    if (own.size() != 1 || !node.are_equal(extents[0], own[0])) node.refuse_inputs("there is not one write index for each batch");
    first = node.with_extents(first, {extents[0]});
    place = m.add(place, m.spread(first, pair, {0}));
    if (mode == "circular") {  // the remainder of a number that may be negative
      Value whole = m.extent(size, place), none = m.number(place, 0);
      // with an extent of 0 there are no elements, so that nothing is divided by it
      Value rest = m.sub(place, m.mul(m.div(place, whole), whole));
      place = m.select(m.compare(CompareKind::lt, rest, none), m.add(rest, whole), rest);
    } else {
      // the first and the last element that it replaces are inside
      expect_inside(node, cache, axis,
                    m.select(m.compare(CompareKind::eq, m.extent(count, first), m.number(first, 0)), m.number(first, 0), first));
      Value last = m.sub(m.add(first, m.extent(count, first)), m.number(first, 1));
      expect_inside(node, cache, axis, m.max(last, m.number(last, 0)));
    }
  }
  if (tx::static_extent(count) == 0) return node.set_result(node.reshape(cache, extents));
  place = is_single ? node.reshape(place, {count}) : m.spread(place, given, {0, axis});
  node.set_result(node.make<tx::ScatterOp>(type, node.with_extents(cache, extents), place, update, node.builder.getI64IntegerAttr(axis),
                                           tx::ReduceKindAttr()));
}

// Gaussian elimination. Each step takes the row with the largest first element as pivot, which the first row replaces, and leaves a matrix with one
// row and one column less.
void det(Node& node) {
  constexpr int64_t largest = 64;
  Value x = node.input(0);
  const Extents own = Node::extents_of(x);
  if (own.size() < 2) node.fail("its input needs rank 2 or more, has " + std::to_string(own.size()));
  const Type element = Node::type_of(x).getElementType();
  if (!llvm::isa<FloatType>(element)) node.refuse_inputs("its input needs elements that are floats");
  const AffineExpr rows = own[own.size() - 2];
  if (!node.are_equal(rows, own.back())) node.refuse_inputs("its matrices are not square");
  auto size = tx::static_extent(rows);
  if (!size) size = tx::static_extent(own.back());
  if (!size || *size > largest)
    node.fail("matrices of more than " + std::to_string(largest) + " rows, or of a symbolic number, are not supported",
              HEDDLE_STATUS_UNIMPLEMENTED);
  const Extents outer(own.begin(), own.end() - 2);
  const AffineExpr batch = node.count_of(outer);
  auto constant = [&](int64_t value) { return node.builder.getAffineConstantExpr(value); };
  Arithmetic m(node);
  const Type compute = element.isF64() ? element : Type(node.builder.getF32Type()), i64 = node.builder.getI64Type();
  Value a = node.converted(node.reshape(x, {batch, constant(*size), constant(*size)}), compute);
  Value result = node.splat(node.tensor_type({batch}, compute), 1);
  auto part = [&](Value value, int64_t row, int64_t row_count, int64_t column, int64_t column_count) {
    SmallVector<int64_t> starts{0, row, column}, strides{1, 1, 1};
    return node.builder.createOrFold<tx::SliceOp>(
        node.location(), node.tensor_type({batch, constant(row_count), constant(column_count)}, compute), value, starts, strides);
  };
  for (int64_t n = *size; n > 0; --n) {
    Value column = node.reshape(part(a, 0, n, 0, 1), {batch, constant(n)});
    Value chosen = node.make<tx::ArgReduceOp>(node.tensor_type({batch}, i64), tx::ReduceKind::max, m.abs(column), 1, false);
    Value row = node.make<tx::GatherNdOp>(node.tensor_type({batch, constant(n)}, compute), a, node.reshape(chosen, {batch, constant(1)}),
                                          node.builder.getI64IntegerAttr(1));
    SmallVector<int64_t> start{0, 0}, stride{1, 1};
    Value pivot = node.reshape(
        node.builder.createOrFold<tx::SliceOp>(node.location(), node.tensor_type({batch, constant(1)}, compute), row, start, stride),
        {batch});
    Value is_first = m.compare(CompareKind::eq, chosen, m.number(chosen, 0));
    result = m.mul(result, m.select(is_first, pivot, node.make<tx::NegOp>(Node::type_of(pivot), pivot)));
    if (n == 1) break;
    // the first row takes the pivot's place, and the rows behind it stay
    const Extents rest{batch, constant(n - 1), constant(n)};
    Value place = m.add(m.iota({batch, constant(n - 1)}, 1, i64), node.splat(node.tensor_type({batch, constant(n - 1)}, i64), 1));
    Value is_taken = m.compare(CompareKind::eq, place, m.spread(chosen, {batch, constant(n - 1)}, {0}));
    Value others = m.select(m.spread(is_taken, rest, {0, 1}), node.broadcast(part(a, 0, 1, 0, n), rest), part(a, 1, n - 1, 0, n));
    Value divisor = m.select(m.compare(CompareKind::eq, pivot, m.number(pivot, 0)), m.number(pivot, 1), pivot);
    const Extents smaller{batch, constant(n - 1), constant(n - 1)};
    Value factor = node.reshape(part(others, 0, n - 1, 0, 1), {batch, constant(n - 1)});
    factor = m.div(factor, m.spread(divisor, {batch, constant(n - 1)}, {0}));
    Value tail = part(node.reshape(row, {batch, constant(1), constant(n)}), 0, 1, 1, n - 1);
    a = m.sub(part(others, 0, n - 1, 1, n - 1), m.mul(m.spread(factor, smaller, {0, 1}), node.broadcast(tail, smaller)));
  }
  node.set_result(node.converted(node.reshape(result, outer), element));
}

// The name of ScatterElements up to opset 10.
void scatter(Node& node) {
  index_operators().find("ScatterElements")->second(node);
}

}  // namespace

const Table& sequence_operators() {
  static const Table table = {
      {"CumProd", cum_prod},
      {"Det", det},
      {"Hardmax", hardmax},
      {"LpNormalization", lp_normalization},
      {"ReverseSequence", reverse_sequence},
      {"Scatter", scatter},
      {"TensorScatter", tensor_scatter},
  };
  return table;
}

}  // namespace heddle::import
