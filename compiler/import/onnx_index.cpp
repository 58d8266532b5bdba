// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators that choose elements by an index, and those that make indices.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_data.h"

using namespace mlir;

namespace heddle::import {
namespace {

void check_indices(Node& node, Value indices) {
  if (!llvm::isa<IntegerType>(Node::type_of(indices).getElementType())) node.fail("the indices are not integers");
}

// The first of indices that are constants, count up and lie inside a dimension of known extent.
std::optional<int64_t> first_of_run(const Operand& indices, AffineExpr extent) {
  auto size = tx::static_extent(extent);
  if (!size || !indices.elements || indices.elements->empty()) return std::nullopt;
  std::optional<int64_t> first;
  for (auto [i, index] : llvm::enumerate(*indices.elements)) {
    auto at = tx::static_extent(index);
    if (!at || *at < -*size || *at >= *size) return std::nullopt;
    int64_t start = (*at < 0 ? *at + *size : *at) - static_cast<int64_t>(i);
    if (first.value_or(start) != start) return std::nullopt;
    first = start;
  }
  return first;
}

void gather(Node& node) {
  const Operand& operand = node.operand(0);
  const Operand& places = node.operand(1);
  const auto is_number = [](AffineExpr element) { return tx::static_extent(element).has_value(); };
  if (operand.is_folded() && operand.rank == 1 && places.elements && !places.is_matrix() && llvm::all_of(*places.elements, is_number)) {
    std::vector<AffineExpr> taken;
    int64_t size = operand.elements->size();
    for (int64_t index : node.integers(1)) taken.push_back((*operand.elements)[node.axis(index, size)]);
    node.set_elements(std::move(taken), places.rank, operand.bits);
    return;
  }
  Value input = node.input(0), indices = node.input(1);
  Extents from = Node::extents_of(input), middle = Node::extents_of(indices), to;
  int64_t axis = node.axis(node.integer("axis", 0), from.size());
  check_indices(node, indices);
  to.append(from.begin(), from.begin() + axis);
  llvm::append_range(to, middle);
  to.append(from.begin() + axis + 1, from.end());
  if (auto first = first_of_run(node.operand(1), from[axis])) {  // a slice, which its reader may read where it lies
    SmallVector<int64_t> starts(from.size(), 0), strides(from.size(), 1);
    starts[axis] = *first;
    from[axis] = node.builder.getAffineConstantExpr(static_cast<int64_t>(node.operand(1).elements->size()));
    RankedTensorType part = node.tensor_type(from, Node::type_of(input).getElementType());
    node.set_result(node.reshape(node.builder.createOrFold<tx::SliceOp>(node.location(), part, input, starts, strides), to));
    return;
  }
  expect_inside(node, input, axis, indices);
  node.set_result(node.make<tx::GatherOp>(node.tensor_type(to, Node::type_of(input).getElementType()), input, indices,
                                          node.builder.getI64IntegerAttr(axis)));
}

void gather_elements(Node& node) {
  Value input = node.input(0), indices = node.input(1);
  RankedTensorType type = Node::type_of(input);
  check_indices(node, indices);
  int64_t axis = node.axis(node.integer("axis", 0), type.getRank());
  expect_inside(node, input, axis, indices);
  const Extents from = tx::extents(type), of_indices = Node::extents_of(indices);
  for (size_t d = 0; d < std::min(from.size(), of_indices.size()); ++d) {
    if (static_cast<int64_t>(d) != axis && !node.graph.symbols.require(from[d], of_indices[d], node.describe()))
      node.refuse_inputs("its indices reach beyond its input on dimension " + std::to_string(d));
  }
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
              " after the batch dimensions");
  for (int64_t i = 0; i < *count; ++i) expect_inside(node, input, batch + i, indices, i);
  Extents to(rows.begin(), rows.end() - 1);
  to.append(from.begin() + batch + *count, from.end());
  node.set_result(node.make<tx::GatherNdOp>(node.tensor_type(to, Node::type_of(input).getElementType()), input, indices,
                                            node.builder.getI64IntegerAttr(batch)));
}

// A number for each element of a vector, or one for each index up to an extent.
Value spread_extent(Node& node, AffineExpr extent, RankedTensorType type) {
  if (auto known = tx::static_extent(extent)) return node.splat(type, static_cast<double>(*known));
  return node.broadcast(node.extent_value(extent), tx::extents(type));
}

// The place of each row of indices among the indices of the dimensions that it names.
Value places_of_rows(Node& node, Value rows, ArrayRef<AffineExpr> dimensions) {
  Type i64 = node.builder.getI64Type();
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  RankedTensorType matrix = Node::type_of(rows);
  if (matrix.getElementType() != i64) rows = node.make<tx::CastOp>(tx::with_element_type(matrix, i64), rows);
  Extents count{tx::extents(matrix)[0]}, column{count[0], one};
  RankedTensorType type = node.tensor_type(count, i64), bools = tx::with_element_type(type, node.builder.getI1Type());
  Value place;
  for (auto [k, extent] : llvm::enumerate(dimensions)) {
    SmallVector<int64_t> starts{0, static_cast<int64_t>(k)}, strides{1, 1};
    Value index = node.builder.createOrFold<tx::SliceOp>(node.location(), node.tensor_type(column, i64), rows, starts, strides);
    index = node.reshape(index, count);
    Value size = spread_extent(node, extent, type),
          is_negative = node.make<tx::CompareOp>(bools, tx::CompareKind::lt, index, node.splat(type, 0));
    index = node.make<tx::SelectOp>(type, is_negative, node.make<tx::AddOp>(type, index, size), index);
    place = place ? node.make<tx::AddOp>(type, node.make<tx::MulOp>(type, place, size), index) : index;
  }
  return place;
}

// How updates are combined with existing elements; nothing if they replace them.
tx::ReduceKindAttr reduction_of(Node& node) {
  std::string name = node.text("reduction", "none");
  if (name == "none") return {};
  const std::pair<const char*, tx::ReduceKind> known[] = {
      {"add", tx::ReduceKind::sum}, {"mul", tx::ReduceKind::prod}, {"max", tx::ReduceKind::max}, {"min", tx::ReduceKind::min}};
  auto found = llvm::find_if(known, [&](const auto& one) { return name == one.first; });
  if (found == std::end(known)) node.fail("reduction '" + name + "' is not one of none, add, mul, max and min");
  const bool is_or = found->second == tx::ReduceKind::sum && Node::type_of(node.input(0)).getElementType().isInteger(1);
  return tx::ReduceKindAttr::get(node.builder.getContext(), is_or ? tx::ReduceKind::max : found->second);
}

// If several updates have the same place, the last one counts.
void scatter_nd(Node& node) {
  Value data = node.input(0), indices = node.input(1), updates = node.input(2);
  check_indices(node, indices);
  Extents from = Node::extents_of(data), rows = Node::extents_of(indices);
  if (rows.empty()) node.fail("its indices need rank 1 or more");
  auto count = tx::static_extent(rows.back());
  if (!count) node.fail("the last extent of the indices is symbolic", HEDDLE_STATUS_UNIMPLEMENTED);
  if (*count < 1 || *count > static_cast<int64_t>(from.size()))
    node.fail("the indices name " + std::to_string(*count) + " dimensions, and the data has " + std::to_string(from.size()));
  ArrayRef<AffineExpr> named = ArrayRef<AffineExpr>(from).take_front(*count), inner = ArrayRef<AffineExpr>(from).drop_front(*count);
  Extents wanted(rows.begin(), rows.end() - 1);
  llvm::append_range(wanted, inner);
  Extents given = Node::extents_of(updates);
  bool fits = given.size() == wanted.size() && Node::type_of(updates).getElementType() == Node::type_of(data).getElementType();
  for (size_t i = 0; fits && i < given.size(); ++i) fits = node.are_equal(wanted[i], given[i]);
  if (!fits) node.fail("the updates do not fit the data and the indices");
  for (int64_t i = 0; i < *count; ++i) expect_inside(node, data, i, indices, i);

  AffineExpr places = node.count_of(named), number = node.count_of(ArrayRef<AffineExpr>(rows).drop_back()), size = node.count_of(inner);
  Value targets = places_of_rows(node, node.reshape(indices, {number, rows.back()}), named);
  Type element = Node::type_of(data).getElementType();
  RankedTensorType whole = node.tensor_type({places, size}, element);
  Value result = node.make<tx::ScatterOp>(whole, node.reshape(data, {places, size}), targets, node.reshape(updates, {number, size}),
                                          node.builder.getI64IntegerAttr(0), reduction_of(node));
  node.set_result(node.reshape(result, from));
}

// For a shape, whose elements are known here, and for tensors.
void scatter_elements(Node& node) {
  const Operand& shape = node.operand(0);
  if (shape.is_folded() && shape.rank == 1 && node.operand(1).elements && node.operand(2).elements &&
      node.text("reduction", "none") == "none") {
    std::vector<AffineExpr> elements = *shape.elements, updates = node.elements(2);
    const std::vector<int64_t> places = node.integers(1);
    if (places.size() != updates.size()) node.fail("the indices and the updates do not fit the data");
    for (auto [place, update] : llvm::zip_equal(places, updates)) {
      elements[static_cast<size_t>(node.axis(place, static_cast<int64_t>(elements.size())))] = update;
    }
    node.set_elements(std::move(elements), 1, shape.bits);
    return;
  }
  Value data = node.input(0), indices = node.input(1), updates = node.input(2);
  check_indices(node, indices);
  RankedTensorType type = Node::type_of(data);
  Type element = type.getElementType();
  int64_t rank = type.getRank(), axis = node.axis(node.integer("axis", 0), rank);
  Extents extents = tx::extents(type), given = Node::extents_of(indices), of_updates = Node::extents_of(updates);
  bool fits =
      static_cast<int64_t>(given.size()) == rank && of_updates.size() == given.size() && Node::type_of(updates).getElementType() == element;
  for (int64_t d = 0; fits && d < rank; ++d) fits = node.are_equal(given[d], of_updates[d]);
  if (!fits) node.fail("the indices and the updates do not fit the data");
  for (int64_t d = 0; d < rank; ++d) {
    if (d == axis || given[d] == extents[d]) continue;
    if (tx::static_extent(given[d]) || !node.are_equal(extents[d], given[d]))
      node.fail("the indices have fewer elements than the data along dimension " + std::to_string(d), HEDDLE_STATUS_UNIMPLEMENTED);
  }
  expect_inside(node, data, axis, indices);
  AffineExpr count = given[axis];
  given = extents;
  given[axis] = count;
  node.set_result(node.make<tx::ScatterOp>(type, data, node.with_extents(indices, given), node.with_extents(updates, given),
                                           node.builder.getI64IntegerAttr(axis), reduction_of(node)));
}

// The depth may be a float.
std::vector<AffineExpr> depth_of(Node& node) {
  if (!is_data(node, 1) || !llvm::isa<FloatType>(Node::type_of(node.input(1)).getElementType())) return extents_from(node, 1, "depth");
  Value whole = node.converted(node.input(1), node.builder.getI64Type());
  return read_extents(node, {node, node.reshape(whole, {node.builder.getAffineConstantExpr(1)})}, "depth");
}

// A new dimension that is on at the index of each element, and off elsewhere; for an index outside, it is off everywhere.
void one_hot(Node& node) {
  Value indices = node.input(0), values = node.input(2);
  const std::vector<AffineExpr> depths = depth_of(node);
  if (depths.size() != 1) node.fail("depth has " + std::to_string(depths.size()) + " elements; 1 was expected");
  AffineExpr depth = depths[0];
  Extents extents = Node::extents_of(indices);
  int64_t axis = node.axis(node.integer("axis", -1), static_cast<int64_t>(extents.size()) + 1);
  SmallVector<int64_t> others;
  for (int64_t i = 0; i <= static_cast<int64_t>(extents.size()); ++i) {
    if (i != axis) others.push_back(i);
  }
  extents.insert(extents.begin() + axis, depth);
  RankedTensorType type = node.tensor_type(extents, node.builder.getI64Type()),
                   bools = tx::with_element_type(type, node.builder.getI1Type());
  RankedTensorType whole = tx::with_element_type(Node::type_of(indices), node.builder.getI64Type());
  if (Node::type_of(indices) != whole) indices = node.make<tx::CastOp>(whole, indices);
  Value index = node.builder.createOrFold<tx::BroadcastOp>(node.location(), type, indices, others);
  Value place = node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(axis));
  Value size = node.broadcast(node.extent_value(depth), extents), zero = node.splat(type, 0);
  Value is_negative = node.make<tx::CompareOp>(bools, tx::CompareKind::lt, index, zero);
  index = node.make<tx::SelectOp>(type, is_negative, node.make<tx::AddOp>(type, index, size), index);
  if (Node::extents_of(values) != Extents{node.builder.getAffineConstantExpr(2)}) node.fail("values does not have 2 elements");
  Type element = Node::type_of(values).getElementType();
  auto value = [&](int64_t which) {
    SmallVector<int64_t> start{which}, stride{1};
    Value one = node.make<tx::SliceOp>(RankedTensorType::get({1}, element), values, start, stride);
    return node.broadcast(node.reshape(one, {}), extents);
  };
  Value hit = node.make<tx::CompareOp>(bools, tx::CompareKind::eq, place, index);
  node.set_result(node.make<tx::SelectOp>(tx::with_element_type(type, element), hit, value(1), value(0)));
}

void eye_like(Node& node) {
  RankedTensorType input = Node::type_of(node.input(0));
  if (input.getRank() != 2) node.fail("its input needs rank 2, has " + std::to_string(input.getRank()));
  Type element = input.getElementType();
  if (node.has_attribute("dtype")) element = element_type(node.builder.getContext(), node.integer("dtype"), node.describe());
  RankedTensorType type = tx::with_element_type(input, node.builder.getI64Type()),
                   bools = tx::with_element_type(input, node.builder.getI1Type());
  Value rows = node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(0)),
        columns = node.make<tx::IotaOp>(type, node.builder.getI64IntegerAttr(1));
  int64_t k = std::clamp(node.integer("k", 0), -largest_extent, largest_extent);
  if (k != 0) rows = node.make<tx::AddOp>(type, rows, node.splat(type, static_cast<double>(k)));
  Value is_on = node.make<tx::CompareOp>(bools, tx::CompareKind::eq, rows, columns);
  RankedTensorType to = tx::with_element_type(input, element);
  node.set_result(to == bools ? is_on : node.make<tx::CastOp>(to, is_on));
}

// Start, limit and step of a Range of integers that may depend on symbols, and the number of its elements.
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
  auto known = tx::static_extent(count);  // a range away from its limit is empty; a symbolic one is refused when it runs
  return {start, limit, delta, known && *known < 0 ? node.builder.getAffineConstantExpr(0) : count};
}

// The number of elements of a Range with constant inputs.
AffineExpr constant_count(Node& node, Type type) {
  double numbers[3];
  for (int i = 0; i < 3; ++i) {
    Value input = node.input(i);
    if (Node::type_of(input).getElementType() != type) node.refuse_inputs("element types of the inputs differ");
    DenseElementsAttr elements = known_elements(input);
    if (!elements) node.graph.need_elements(input);
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

// The same for inputs that are data.
AffineExpr count_by_data(Node& node, Type type) {
  Integers count(node, {});
  if (llvm::isa<IntegerType>(type)) {
    Integers start = vector_of(node, 0), limit = vector_of(node, 1), delta = vector_of(node, 2), zero = start.number(0),
             one = start.number(1);
    expect_not_zero(node, delta.value());
    Integers span = limit - start, falls = delta < zero, size = (zero - delta).where(falls, delta);
    count = ((zero - span).where(falls, span) + size - one) / one.where(size == zero, size);
  } else {
    Value parts[3];
    for (int i = 0; i < 3; ++i) parts[i] = node.reshape(node.input(i), {node.builder.getAffineConstantExpr(1)});
    RankedTensorType one = Node::type_of(parts[0]), wide = tx::with_element_type(one, node.builder.getF64Type());
    Value span = node.converted(node.make<tx::SubOp>(one, parts[1], parts[0]), wide.getElementType());
    Value steps = node.make<tx::CeilOp>(wide, node.make<tx::DivOp>(wide, span, node.converted(parts[2], wide.getElementType())));
    steps = node.make<tx::MinOp>(wide, steps, node.splat(wide, 2 * static_cast<double>(largest_extent)));
    count = {node, node.converted(node.make<tx::MaxOp>(wide, steps, node.splat(wide, 0)), node.builder.getI64Type())};
  }
  return read_extents(node, max(count, count.number(0)), "number of elements of the result").front();
}

// A few numbers stay elements of a shape; more are an index, scaled and offset.
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
    bool is_known = true;
    for (int i = 0; i < 3; ++i) {
      if (Node::type_of(node.input(i)).getElementType() != type) node.refuse_inputs("element types of the inputs differ");
      RankedTensorType given = Node::type_of(node.input(i));
      if (!given.hasStaticShape() || given.getNumElements() != 1) node.refuse_inputs("an input is not one number");
      is_known &= static_cast<bool>(known_elements(node.input(i)));
      if (!known_elements(node.input(i))) node.graph.need_elements(node.input(i));
    }
    steps.count = is_known ? constant_count(node, type) : count_by_data(node, type);
  }
  RankedTensorType to = node.tensor_type({steps.count}, type);
  Value result = node.make<tx::IotaOp>(to, node.builder.getI64IntegerAttr(0));
  auto is = [&](int input, AffineExpr element, int64_t number) {
    if (element) return element == node.builder.getAffineConstantExpr(number);
    DenseElementsAttr known = known_elements(node.input(input));
    return known && number_of(*known.getValues<Attribute>().begin()) == static_cast<double>(number);
  };
  auto spread = [&](int input) { return node.broadcast(node.reshape(node.input(input), {}), tx::extents(to)); };
  if (!is(2, steps.delta, 1)) result = node.make<tx::MulOp>(to, result, spread(2));
  if (!is(0, steps.start, 0)) result = node.make<tx::AddOp>(to, result, spread(0));
  node.set_result(result);
}

// The triangle of each matrix in which columns are at least (upper) or at most the row plus k.
void trilu(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  if (type.getRank() < 2) node.fail("its input needs rank 2 or more, has " + std::to_string(type.getRank()));
  bool upper = node.integer("upper", 1) != 0;
  int64_t k = 0;
  Value k_in_data;
  if (is_data(node, 1)) {
    k_in_data = vector_of(node, 1).value();
    if (Node::type_of(k_in_data).getNumElements() != 1) node.fail("k is not one number");
  } else if (node.has_input(1)) {
    std::vector<int64_t> given = node.integers(1);
    if (given.size() != 1) node.fail("k has " + std::to_string(given.size()) + " elements; 1 was expected");
    k = std::clamp(given[0], -largest_extent, largest_extent);
  }
  Extents extents = tx::extents(type), matrix(extents.end() - 2, extents.end());
  RankedTensorType places = node.tensor_type(matrix, node.builder.getI64Type());
  Value rows = node.make<tx::IotaOp>(places, node.builder.getI64IntegerAttr(0));
  Value columns = node.make<tx::IotaOp>(places, node.builder.getI64IntegerAttr(1));
  if (k != 0) rows = node.make<tx::AddOp>(places, rows, node.splat(places, static_cast<double>(k)));
  if (k_in_data) {
    const Integers given(node, k_in_data), bounded = max(min(given, given.number(largest_extent)), given.number(-largest_extent));
    rows = node.make<tx::AddOp>(places, rows, node.broadcast(node.reshape(bounded.value(), {}), matrix));
  }
  Value kept = node.make<tx::CompareOp>(tx::with_element_type(places, node.builder.getI1Type()),
                                        upper ? tx::CompareKind::ge : tx::CompareKind::le, columns, rows);
  node.set_result(node.make<tx::SelectOp>(type, node.broadcast(kept, extents), input, node.splat(type, 0)));
}

void top_k(Node& node) {
  Value input = node.input(0);
  const Extents given = Node::extents_of(input);
  const auto rank = static_cast<int64_t>(given.size());
  if (rank == 0) node.fail("its input is a scalar");
  const int64_t axis = node.axis(node.integer("axis", -1), rank);
  const bool largest = node.integer("largest", 1) != 0;
  node.integer("sorted", 1);  // they always are
  std::vector<AffineExpr> wanted;
  if (node.opset() >= 10) {
    wanted = extents_from(node, 1, "k");
  } else {
    wanted.push_back(node.builder.getAffineConstantExpr(node.integer("k")));
  }
  if (wanted.size() != 1) node.fail("k has " + std::to_string(wanted.size()) + " elements; 1 was expected");
  const AffineExpr k = wanted.front(), size = given[axis];
  if (at_least(k, node.builder.getAffineConstantExpr(0)) == false || !node.graph.symbols.require(size, k, node.describe()))
    node.fail("k is not from 0 to the extent of dimension " + std::to_string(axis));
  Extents first = given;
  first[axis] = k;
  Value indices = node.make<tx::SortOp>(node.tensor_type(first, node.builder.getI64Type()), input, node.builder.getI64IntegerAttr(axis),
                                        largest ? node.builder.getUnitAttr() : UnitAttr());
  node.set_result(node.make<tx::GatherElementsOp>(node.tensor_type(first, Node::type_of(input).getElementType()), input, indices,
                                                  node.builder.getI64IntegerAttr(axis)),
                  0);
  node.set_result(indices, 1);
}

}  // namespace

const Table& index_operators() {
  static const Table table = {
      {"EyeLike", eye_like}, {"Gather", gather}, {"GatherElements", gather_elements},   {"GatherND", gather_nd},
      {"OneHot", one_hot},   {"Range", range},   {"ScatterElements", scatter_elements}, {"ScatterND", scatter_nd},
      {"TopK", top_k},       {"Trilu", trilu},
  };
  return table;
}

}  // namespace heddle::import
