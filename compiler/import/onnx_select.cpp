// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators whose results have as many elements as a condition holds for: NonZero, Compress, Unique. Kernels compute their number, which the program
// reads.
#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_text.h"

using namespace mlir;

namespace heddle::import {
namespace {

RankedTensorType indices_of(const Node& node, AffineExpr count) {
  return node.tensor_type({count}, node.builder.getI64Type());
}

Value places_up_to(Node& node, AffineExpr count) {
  return node.make<tx::IotaOp>(indices_of(node, count), node.builder.getI64IntegerAttr(0));
}

// 1 where an element is not 0, as i64.
Value is_not_zero(Node& node, Value value) {
  RankedTensorType type = Node::type_of(value);
  if (!type.getElementType().isInteger(1)) {
    value =
        node.make<tx::CompareOp>(tx::with_element_type(type, node.builder.getI1Type()), tx::CompareKind::ne, value, node.splat(type, 0));
  }
  return node.converted(value, node.builder.getI64Type());
}

void non_zero(Node& node) {
  Value input = node.input(0);
  Extents extents = Node::extents_of(input);
  if (extents.empty()) {  // as a vector of one element
    extents.push_back(node.builder.getAffineConstantExpr(1));
  }
  Value places =
      places_of_ones(node, is_not_zero(node, node.reshape(input, {node.count_of(extents)})), "number of elements that are not 0");
  const RankedTensorType type = Node::type_of(places);
  const Extents row = {node.builder.getAffineConstantExpr(1), tx::extents(type)[0]};
  SmallVector<Value> rows;
  for (size_t i = extents.size(); i-- > 0;) {
    Value place = places;
    if (i > 0) {
      Value extent = node.broadcast(node.extent_value(extents[i]), tx::extents(type));
      // Only of places, of which there are none if an extent is 0.
      extent = node.make<tx::MaxOp>(type, extent, node.splat(type, 1));
      Value rest = node.make<tx::DivOp>(type, places, extent);
      place = node.make<tx::SubOp>(type, places, node.make<tx::MulOp>(type, rest, extent));
      places = rest;
    }
    rows.insert(rows.begin(), node.reshape(place, row));
  }
  if (rows.size() == 1) return node.set_result(rows[0]);
  Extents all = row;
  all[0] = node.builder.getAffineConstantExpr(static_cast<int64_t>(rows.size()));
  node.set_result(node.make<tx::ConcatOp>(node.tensor_type(all, node.builder.getI64Type()), rows, node.builder.getI64IntegerAttr(0)));
}

void compress(Node& node) {
  Value input = node.input(0), condition = node.input(1);
  if (Node::type_of(condition).getRank() != 1 || !Node::type_of(condition).getElementType().isInteger(1))
    node.refuse_inputs("the condition is not a vector of bools");
  int64_t axis = 0;
  if (node.has_attribute("axis")) {
    axis = node.axis(node.integer("axis"), Node::type_of(input).getRank());
  } else {
    input = node.reshape(input, {node.count_of(Node::extents_of(input))});
  }
  // What is behind the end of the condition is left out; a condition that is longer may only hold for elements that are there.
  const AffineExpr extent = Node::extents_of(input)[static_cast<size_t>(axis)], length = Node::extents_of(condition)[0];
  if (!node.graph.symbols.require(extent, length, node.describe())) node.refuse_inputs("the condition is longer than the dimension");
  Value places = places_of_ones(node, is_not_zero(node, condition), "number of elements for which the condition holds");
  node.set_result(taken(node, input, places, axis));
}

// The order of the rows of a matrix, column by column from the last one on: sorting keeps the order of equal elements.
Value order_of_rows(Node& node, Value matrix) {
  const Extents extents = Node::extents_of(matrix);
  const int64_t columns = *tx::static_extent(extents[1]);
  const Type element = Node::type_of(matrix).getElementType();
  Value order;
  for (int64_t i = columns; i-- > 0;) {
    Extents one = extents;
    one[1] = node.builder.getAffineConstantExpr(1);
    SmallVector<int64_t> start{0, i}, stride{1, 1};
    Value column = columns == 1 ? matrix : node.make<tx::SliceOp>(node.tensor_type(one, element), matrix, start, stride);
    column = node.reshape(column, {extents[0]});
    if (order) column = taken(node, column, order);
    Value next = node.make<tx::SortOp>(indices_of(node, extents[0]), column, node.builder.getI64IntegerAttr(0), UnitAttr());
    order = order ? taken(node, order, next) : next;
  }
  return order ? order : places_up_to(node, extents[0]);
}

// For each string, how many of all are before it in the order of their bytes, which is that of their letters: equal strings have equal numbers. Each pair is
// compared.
Value ranks_of(Node& node, Value text) {
  const Arithmetic a(node);
  const AffineExpr count = node.count_of(strings_of(text)), width = width_of(text);
  const Extents pairs{count, count, width};
  Value flat = node.converted(node.reshape(text, {count, width}), node.builder.getI64Type());
  Value mine = a.spread(flat, pairs, {0, 2}), other = a.spread(flat, pairs, {1, 2});
  // 2 k where they differ, with k bytes from there to the end, and one more if the other is less there: the largest number is that of the first difference.
  Value left = a.sub(a.extent(width, mine), a.iota(pairs, 2, node.builder.getI64Type()));
  Value number = a.add(a.add(left, left), node.converted(a.compare(tx::CompareKind::gt, mine, other), node.builder.getI64Type()));
  number = a.select(a.compare(tx::CompareKind::eq, mine, other), a.number(number, 0), number);
  const Extents square{count, count};
  const RankedTensorType type = node.tensor_type(square, node.builder.getI64Type());
  Value first = a.max(node.make<tx::ReduceOp>(type, tx::ReduceKind::max, number, ArrayRef<int64_t>{2}), node.splat(type, 0));
  Value half = a.div(first, a.number(first, 2)), is_less = a.sub(first, a.add(half, half));
  Value ranks = node.make<tx::ReduceOp>(indices_of(node, count), tx::ReduceKind::sum, is_less, ArrayRef<int64_t>{1});
  return node.reshape(ranks, strings_of(text));
}

}  // namespace

void unique(Node& node) {
  const bool is_text = node.is_text(0);
  Value text = is_text ? node.text(0) : Value(), input = is_text ? ranks_of(node, text) : node.input(0);
  const bool has_axis = node.has_attribute("axis"), is_sorted = node.integer("sorted", 1) != 0;
  const Type element = Node::type_of(input).getElementType();
  int64_t axis = 0;
  Value matrix;
  if (has_axis) {
    const Extents extents = Node::extents_of(input);
    axis = node.axis(node.integer("axis"), static_cast<int64_t>(extents.size()));
    SmallVector<int64_t> order{axis};
    Extents others;
    for (int64_t i = 0; i < static_cast<int64_t>(extents.size()); ++i) {
      if (i == axis) continue;
      order.push_back(i);
      others.push_back(extents[static_cast<size_t>(i)]);
    }
    const AffineExpr columns = node.count_of(others);
    constexpr int64_t most_columns = 64;
    auto known = tx::static_extent(columns);
    if (!known || *known > most_columns) {
      node.fail("it compares parts of more than " + std::to_string(most_columns) + " elements, or of a number that is not known",
                HEDDLE_STATUS_UNIMPLEMENTED);
    }
    matrix = node.reshape(node.transpose(input, order), {extents[static_cast<size_t>(axis)], columns});
  } else {
    input = node.reshape(input, {node.count_of(Node::extents_of(input))});
    matrix = node.reshape(input, {Node::extents_of(input)[0], node.builder.getAffineConstantExpr(1)});
  }
  if (element.isInteger(1)) matrix = node.converted(matrix, node.builder.getI32Type());
  const AffineExpr count = Node::extents_of(matrix)[0];
  RankedTensorType type = indices_of(node, count), bools = tx::with_element_type(type, node.builder.getI1Type());
  Value order = order_of_rows(node, matrix), places = places_up_to(node, count), sorted = taken(node, matrix, order);
  // Whether a row is the first of those that are equal to it.
  Value before = node.make<tx::MaxOp>(type, node.make<tx::SubOp>(type, places, node.splat(type, 1)), node.splat(type, 0));
  RankedTensorType rows = Node::type_of(sorted), differs = tx::with_element_type(rows, node.builder.getI1Type());
  Value changes = node.converted(node.make<tx::CompareOp>(differs, tx::CompareKind::ne, sorted, taken(node, sorted, before)),
                                 node.builder.getI64Type());
  changes = node.make<tx::ReduceOp>(type, tx::ReduceKind::sum, changes, ArrayRef<int64_t>{1});
  Value is_first = node.make<tx::CompareOp>(bools, tx::CompareKind::eq, places, node.splat(type, 0));
  Value flags = node.make<tx::SelectOp>(type, is_first, node.splat(type, 1), is_not_zero(node, changes));
  Value starts = places_of_ones(node, flags, "number of different elements");
  Value first = taken(node, order, starts);  // its place in the input
  RankedTensorType few = Node::type_of(starts);
  Value group = node.make<tx::SubOp>(type, node.make<tx::CumsumOp>(type, flags, 0, false, false), node.splat(type, 1));
  auto scattered = [&](RankedTensorType to, Value at, Value values, std::optional<tx::ReduceKind> kind) {
    auto how = kind ? tx::ReduceKindAttr::get(node.builder.getContext(), *kind) : tx::ReduceKindAttr();
    return node.make<tx::ScatterOp>(to, node.splat(to, 0), at, values, node.builder.getI64IntegerAttr(0), how);
  };
  Value rank;  // of each group in the result, if that is not sorted
  if (!is_sorted) {
    Value by_place = node.make<tx::SortOp>(few, first, node.builder.getI64IntegerAttr(0), UnitAttr());
    first = taken(node, first, by_place);
    rank = scattered(few, by_place, places_up_to(node, tx::extents(few)[0]), {});
    group = taken(node, rank, group);
  }
  if (is_text) {
    if (!has_axis) text = node.reshape(text, {node.count_of(strings_of(text)), width_of(text)});
    node.set_text(taken(node, text, first, axis), 0);
  } else {
    node.set_result(taken(node, input, first, axis), 0);
  }
  if (node.wants_output(1)) node.set_result(first, 1);
  if (node.wants_output(2)) node.set_result(scattered(type, order, group, {}), 2);
  if (node.wants_output(3)) node.set_result(scattered(few, group, node.splat(type, 1), tx::ReduceKind::sum), 3);
}

const Table& select_operators() {
  static const Table table = {{"Compress", compress}, {"NonZero", non_zero}, {"Unique", unique}};
  return table;
}

}  // namespace heddle::import
