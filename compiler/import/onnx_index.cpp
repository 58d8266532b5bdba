// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators that choose elements by an index, and those that make indices.
#include <cmath>
#include <cstdlib>

#include "compiler/import/onnx_checks.h"

using namespace mlir;

namespace heddle::import {
namespace {

void check_indices(Node& node, Value indices) {
  if (!llvm::isa<IntegerType>(Node::type_of(indices).getElementType())) node.fail("the indices are no integers");
}

void gather(Node& node) {
  const Operand& operand = node.operand(0);
  if (operand.is_folded() && operand.rank == 1 && node.operand(1).elements) {
    std::vector<AffineExpr> taken;
    int64_t size = operand.elements->size();
    for (int64_t index : node.integers(1)) taken.push_back((*operand.elements)[node.axis(index, size)]);
    node.set_elements(std::move(taken), node.operand(1).rank, operand.bits);
    return;
  }
  Value input = node.input(0), indices = node.input(1);
  Extents from = Node::extents_of(input), middle = Node::extents_of(indices), to;
  int64_t axis = node.axis(node.integer("axis", 0), from.size());
  check_indices(node, indices);
  expect_inside(node, input, axis, indices);
  to.append(from.begin(), from.begin() + axis);
  llvm::append_range(to, middle);
  to.append(from.begin() + axis + 1, from.end());
  node.set_result(node.make<tx::GatherOp>(node.tensor_type(to, Node::type_of(input).getElementType()), input, indices,
                                          node.builder.getI64IntegerAttr(axis)));
}

void gather_elements(Node& node) {
  Value input = node.input(0), indices = node.input(1);
  RankedTensorType type = Node::type_of(input);
  check_indices(node, indices);
  int64_t axis = node.axis(node.integer("axis", 0), type.getRank());
  expect_inside(node, input, axis, indices);
  RankedTensorType result = tx::with_element_type(Node::type_of(indices), type.getElementType());
  node.set_result(node.make<tx::GatherElementsOp>(result, input, indices, node.builder.getI64IntegerAttr(axis)));
}

void gather_nd(Node& node) {
  Value input = node.input(0), indices = node.input(1);
  check_indices(node, indices);
  Extents from = Node::extents_of(input), rows = Node::extents_of(indices);
  int64_t rank = static_cast<int64_t>(from.size()), batch = node.integer("batch_dims", 0);
  if (batch < 0 || batch > rank || batch >= static_cast<int64_t>(rows.size()))
    node.fail("batch_dims " + std::to_string(batch) + " does not fit ranks " + std::to_string(rank) + " and " +
              std::to_string(rows.size()));
  auto count = tx::static_extent(rows.back());
  if (!count) node.fail("the last extent of the indices is symbolic", HEDDLE_STATUS_UNIMPLEMENTED);
  if (*count < 1 || *count > rank - batch)
    node.fail("the indices name " + std::to_string(*count) + " dimensions, and the input has " + std::to_string(rank - batch) +
              " behind the batch's");
  for (int64_t i = 0; i < *count; ++i) expect_inside(node, input, batch + i, indices, i);
  Extents to(rows.begin(), rows.end() - 1);
  to.append(from.begin() + batch + *count, from.end());
  node.set_result(node.make<tx::GatherNdOp>(node.tensor_type(to, Node::type_of(input).getElementType()), input, indices,
                                            node.builder.getI64IntegerAttr(batch)));
}

// Start, limit and step of a Range of integers that may depend on symbols, and how many there are.
struct Steps {
  AffineExpr start, limit, delta, count;
};

Steps integer_steps(Node& node) {
  AffineExpr parts[3];
  for (int i = 0; i < 3; ++i) {
    const std::vector<AffineExpr>& elements = *node.operand(i).elements;
    if (elements.size() != 1)
      node.fail("input " + std::to_string(i) + " has " + std::to_string(elements.size()) + " elements; 1 was expected");
    parts[i] = elements[0];
  }
  auto [start, limit, delta] = parts;
  auto step = tx::static_extent(delta);
  if (!step) node.fail("delta depends on a symbolic dimension", HEDDLE_STATUS_UNIMPLEMENTED);
  if (*step == 0) node.fail("delta is 0");
  if (*step < -largest_extent || *step > largest_extent) node.fail("delta is beyond " + std::to_string(largest_extent));
  int64_t size = std::abs(*step);
  AffineExpr span = *step > 0 ? difference(limit, start) : difference(start, limit);
  AffineExpr count = node.computed(quotient(sum(span, node.builder.getAffineConstantExpr(size - 1)), size));
  auto known = tx::static_extent(count);  // what leads away from the limit is empty; a symbolic one is refused when it runs
  return {start, limit, delta, known && *known < 0 ? node.builder.getAffineConstantExpr(0) : count};
}

// How many numbers a Range gives whose inputs are constants.
AffineExpr constant_count(Node& node, Type type) {
  double numbers[3];
  for (int i = 0; i < 3; ++i) {
    Value input = node.input(i);
    if (Node::type_of(input).getElementType() != type) node.fail("element types of the inputs differ");
    DenseElementsAttr elements = known_elements(input);
    if (!elements || elements.getNumElements() != 1) {
      node.fail("input " + std::to_string(i) + " must be one number, known when the model is compiled", HEDDLE_STATUS_UNIMPLEMENTED);
    }
    numbers[i] = number_of(*elements.getValues<Attribute>().begin());
  }
  auto [start, limit, delta] = numbers;
  if (delta == 0) node.fail("delta is 0");
  double span = type.isF32() ? static_cast<float>(limit) - static_cast<float>(start) : limit - start;
  double count = std::max(0.0, std::ceil(span / delta));
  if (!(count <= static_cast<double>(largest_extent))) node.fail("it has more than " + std::to_string(largest_extent) + " elements");
  return node.builder.getAffineConstantExpr(static_cast<int64_t>(count));
}

// Few numbers stay elements of a shape; others are an index, scaled and moved.
void range(Node& node) {
  if (node.input_count() != 3) node.fail("it needs 3 inputs");
  const unsigned bits = node.operand(0).bits;
  bool folded = true;
  for (int i = 0; i < 3; ++i) folded &= node.operand(i).is_shape() && node.operand(i).bits == bits;
  Steps steps;
  Type type;
  if (folded) {
    type = node.builder.getIntegerType(bits);
    steps = integer_steps(node);
    auto count = tx::static_extent(steps.count);
    if (count && *count <= static_cast<int64_t>(most_shape_elements)) {
      std::vector<AffineExpr> elements;
      for (int64_t i = 0; i < *count; ++i) elements.push_back(node.computed(sum(steps.start, steps.delta * i)));
      node.set_elements(std::move(elements), 1, bits);
      return;
    }
  } else {
    type = Node::type_of(node.input(0)).getElementType();
    steps.count = constant_count(node, type);
  }
  RankedTensorType to = node.tensor_type({steps.count}, type);
  Value result = node.make<tx::IotaOp>(to, node.builder.getI64IntegerAttr(0));
  auto is = [&](int input, AffineExpr element, int64_t number) {
    if (element) return element == node.builder.getAffineConstantExpr(number);
    return number_of(*known_elements(node.input(input)).getValues<Attribute>().begin()) == static_cast<double>(number);
  };
  auto spread = [&](int input) { return node.broadcast(node.reshape(node.input(input), {}), tx::extents(to)); };
  if (!is(2, steps.delta, 1)) result = node.make<tx::MulOp>(to, result, spread(2));
  if (!is(0, steps.start, 0)) result = node.make<tx::AddOp>(to, result, spread(0));
  node.set_result(result);
}

// The triangle of each matrix whose columns are at least the rows plus k (upper), or at most.
void trilu(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  if (type.getRank() < 2) node.fail("its input needs rank 2 or more, has " + std::to_string(type.getRank()));
  bool upper = node.integer("upper", 1) != 0;
  int64_t k = 0;
  if (node.has_input(1)) {
    std::vector<int64_t> given = node.integers(1);
    if (given.size() != 1) node.fail("k has " + std::to_string(given.size()) + " elements; 1 was expected");
    k = std::clamp(given[0], -largest_extent, largest_extent);
  }
  Extents extents = tx::extents(type), matrix(extents.end() - 2, extents.end());
  RankedTensorType places = node.tensor_type(matrix, node.builder.getI64Type());
  Value rows = node.make<tx::IotaOp>(places, node.builder.getI64IntegerAttr(0));
  Value columns = node.make<tx::IotaOp>(places, node.builder.getI64IntegerAttr(1));
  if (k != 0) rows = node.make<tx::AddOp>(places, rows, node.splat(places, static_cast<double>(k)));
  Value kept = node.make<tx::CompareOp>(tx::with_element_type(places, node.builder.getI1Type()),
                                        upper ? tx::CompareKind::ge : tx::CompareKind::le, columns, rows);
  node.set_result(node.make<tx::SelectOp>(type, node.broadcast(kept, extents), input, node.splat(type, 0)));
}

}  // namespace

const Table& index_operators() {
  static const Table table = {
      {"Gather", gather}, {"GatherElements", gather_elements}, {"GatherND", gather_nd}, {"Range", range}, {"Trilu", trilu},
  };
  return table;
}

}  // namespace heddle::import
