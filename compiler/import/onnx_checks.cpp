// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges of integers, followed through the graph; and the verdicts that kernels compute: 2 i for an index i, -2 i - 1 for a negative one. The index
// that is farthest outside thus has the largest verdict, which also tells the index (up to 2^53; larger ones are reported as that).
#include "compiler/import/onnx_checks.h"

#include <algorithm>
#include <limits>

#include "compiler/import/onnx_arithmetic.h"

using namespace mlir;

namespace heddle::import {
namespace {

constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();

// The range of the elements of a tensor of integers, both ends included.
struct Range {
  int64_t low = least, high = most;
};

Range united(Range a, Range b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Range of_type(Type element) {
  auto integer = llvm::dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() > 63) return {};  // unsigned integers may exceed the bounds of a Range
  if (integer.getWidth() == 1) return {0, 1};
  if (integer.isUnsigned()) return {0, (int64_t{1} << integer.getWidth()) - 1};
  return {-(int64_t{1} << (integer.getWidth() - 1)), (int64_t{1} << (integer.getWidth() - 1)) - 1};
}

// If the type's arithmetic may wrap, the range is not known.
Range if_it_fits(Range range, bool overflows, Range type) {
  return overflows || range.low < type.low || range.high > type.high ? type : range;
}

Range of_constant(DenseElementsAttr elements, Range type) {
  auto integer = llvm::dyn_cast<IntegerType>(elements.getElementType());
  if (!integer || elements.empty()) return type;
  Range range{most, least};
  auto add = [&](const APInt& value) {
    int64_t number = integer.isUnsigned() || integer.getWidth() == 1 ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue();
    range = united(range, {number, number});
  };
  if (elements.isSplat()) {
    add(elements.getSplatValue<APInt>());
  } else {
    for (const APInt& value : elements.getValues<APInt>()) add(value);
  }
  return integer.isUnsigned() && range.low < 0 ? type : range;  // above 63 bits
}

// How many ops are followed back; beyond that, the range is not known.
constexpr unsigned deepest = 200;

Range range_of(Graph& graph, Value value, unsigned depth = 0);

Range computed_range(Graph& graph, Operation* op, Range type, unsigned depth) {
  auto operand = [&](unsigned i) { return range_of(graph, op->getOperand(i), depth + 1); };
  auto extent_along = [&](RankedTensorType of, int64_t axis) -> Range {
    auto extent = tx::static_extent(tx::extents(of)[static_cast<size_t>(axis)]);
    return {0, extent ? std::max<int64_t>(*extent - 1, 0) : most};
  };
  if (auto constant = llvm::dyn_cast<tx::ConstantOp>(op)) {
    auto elements = llvm::dyn_cast<DenseElementsAttr>(constant.getValue());
    return elements ? of_constant(elements, type) : type;
  }
  if (auto iota = llvm::dyn_cast<tx::IotaOp>(op)) return extent_along(tx::tensor(iota.getResult()), iota.getDimension());
  if (auto found = llvm::dyn_cast<tx::ArgReduceOp>(op)) return extent_along(tx::tensor(found.getInput()), found.getAxis());
  if (llvm::isa<tx::CompareOp>(op)) return {0, 1};
  if (llvm::isa<tx::ReshapeOp, tx::TransposeOp, tx::BroadcastOp, tx::SliceOp, tx::GatherOp, tx::GatherElementsOp, tx::GatherNdOp>(op))
    return operand(0);
  if (auto reduce = llvm::dyn_cast<tx::ReduceOp>(op);
      reduce && (reduce.getKind() == tx::ReduceKind::max || reduce.getKind() == tx::ReduceKind::min))
    return operand(0);
  if (auto cast = llvm::dyn_cast<tx::CastOp>(op)) {
    if (!llvm::isa<IntegerType>(tx::tensor(cast.getInput()).getElementType())) return type;
    return if_it_fits(operand(0), false, type);
  }
  if (llvm::isa<tx::ConcatOp>(op)) {
    Range range = operand(0);
    for (unsigned i = 1; i < op->getNumOperands(); ++i) range = united(range, operand(i));
    return range;
  }
  if (llvm::isa<tx::SelectOp>(op)) return united(operand(1), operand(2));
  if (!llvm::isa<tx::AddOp, tx::SubOp, tx::MaxOp, tx::MinOp>(op)) return type;
  Range a = operand(0), b = operand(1), range;
  if (llvm::isa<tx::MaxOp>(op)) return {std::max(a.low, b.low), std::max(a.high, b.high)};
  if (llvm::isa<tx::MinOp>(op)) return {std::min(a.low, b.low), std::min(a.high, b.high)};
  bool overflows = false;
  if (llvm::isa<tx::AddOp>(op)) {
    overflows |= __builtin_add_overflow(a.low, b.low, &range.low);
    overflows |= __builtin_add_overflow(a.high, b.high, &range.high);
  } else {
    overflows |= __builtin_sub_overflow(a.low, b.high, &range.low);
    overflows |= __builtin_sub_overflow(a.high, b.low, &range.high);
  }
  return if_it_fits(range, overflows, type);
}

Range range_of(Graph& graph, Value value, unsigned depth) {
  if (auto known = graph.ranges.find(value); known != graph.ranges.end()) return {known->second.first, known->second.second};
  Range range = of_type(tx::tensor(value).getElementType());
  if (Operation* op = value.getDefiningOp(); op && depth < deepest) range = computed_range(graph, op, range, depth);
  graph.ranges[value] = {range.low, range.high};
  return range;
}

// The largest element, as a tensor of rank 0.
Value largest(Node& node, Value value) {
  RankedTensorType type = Node::type_of(value);
  if (type.getRank() == 0) return value;
  // In two steps for many elements: a single row of all of them would be computed by one workgroup.
  constexpr int64_t many = 1 << 16;
  if (type.getRank() > 1 && (!type.hasStaticShape() || type.getNumElements() > many)) {
    Extents left = tx::extents(type);
    left.pop_back();
    value = node.make<tx::ReduceOp>(node.tensor_type(left, type.getElementType()), tx::ReduceKind::max, value,
                                    node.builder.getDenseI64ArrayAttr({type.getRank() - 1}));
    type = Node::type_of(value);
  }
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(type.getRank()));
  return node.make<tx::ReduceOp>(RankedTensorType::get({}, type.getElementType()), tx::ReduceKind::max, value,
                                 node.builder.getDenseI64ArrayAttr(axes));
}

Value verdict_of_indices(Node& node, Value indices, std::optional<int64_t> column) {
  if (column) {
    RankedTensorType type = Node::type_of(indices);
    Extents extents = tx::extents(type);
    SmallVector<int64_t> starts(extents.size(), 0), strides(extents.size(), 1);
    starts.back() = *column;
    extents.back() = node.builder.getAffineConstantExpr(1);
    indices = node.make<tx::SliceOp>(node.tensor_type(extents, type.getElementType()), indices, node.builder.getDenseI64ArrayAttr(starts),
                                     node.builder.getDenseI64ArrayAttr(strides));
  }
  RankedTensorType type = tx::with_element_type(Node::type_of(indices), node.builder.getI64Type());
  if (Node::type_of(indices) != type) indices = node.make<tx::CastOp>(type, indices);
  // Twice an index must not wrap.
  constexpr double far = 0x1p53;
  indices = node.make<tx::MinOp>(type, node.make<tx::MaxOp>(type, indices, node.splat(type, -far)), node.splat(type, far));
  RankedTensorType truth = tx::with_element_type(type, node.builder.getI1Type());
  Value is_negative = node.make<tx::CompareOp>(truth, tx::CompareKind::lt, indices, node.splat(type, 0));
  Value twice = node.make<tx::AddOp>(type, indices, indices);
  Value mirrored = node.make<tx::SubOp>(type, node.splat(type, -1), twice);
  return largest(node, node.make<tx::SelectOp>(type, is_negative, mirrored, twice));
}

Value verdict_of_divisor(Node& node, Value divisor) {
  RankedTensorType type = Node::type_of(divisor), wide = tx::with_element_type(type, node.builder.getI64Type());
  RankedTensorType truth = tx::with_element_type(type, node.builder.getI1Type());
  Value is_zero = node.make<tx::CompareOp>(truth, tx::CompareKind::eq, divisor, node.splat(type, 0));
  return largest(node, node.make<tx::CastOp>(wide, is_zero));
}

void expect(Node& node, Value input, int64_t dimension, Value indices, std::optional<int64_t> column, const std::string& where) {
  AffineExpr extent = Node::extents_of(input)[static_cast<size_t>(dimension)];
  Extents shape = Node::extents_of(indices);
  if (llvm::any_of(shape, [](AffineExpr one) { return tx::static_extent(one) == 0; })) return;
  auto known = tx::static_extent(extent);
  DenseElementsAttr constant = known_elements(indices);
  if (known && constant) {
    int64_t columns = column ? *tx::static_extent(shape.back()) : 1, place = 0;
    bool has_sign = !llvm::cast<IntegerType>(constant.getElementType()).isUnsigned();
    auto check = [&](const APInt& value) {
      int64_t index = has_sign ? value.getSExtValue() : static_cast<int64_t>(value.getZExtValue());
      if (index >= -*known && index < *known) return;
      node.fail(where + " has " + std::to_string(*known) + " elements, and the index " + std::to_string(index) + " is outside " +
                std::to_string(-*known) + ".." + std::to_string(*known - 1));
    };
    if (constant.isSplat()) {
      check(constant.getSplatValue<APInt>());
      return;
    }
    for (const APInt& value : constant.getValues<APInt>()) {
      if (place++ % columns == column.value_or(0)) check(value);
    }
    return;
  }
  Range range = range_of(node.graph, indices);
  if (known && range.low >= -*known && range.high < *known) return;
  node.graph.expected.push_back({indices, column, extent, where});
}

std::string named(int64_t dimension) {
  return "dimension " + std::to_string(dimension) + " of its input";
}

}  // namespace

void expect_inside(Node& node, Value input, int64_t dimension, Value indices, std::optional<int64_t> column) {
  expect(node, input, dimension, indices, column, named(dimension));
}

void expect_inside_from_zero(Node& node, Value input, int64_t dimension, Value indices) {
  const AffineExpr extent = Node::extents_of(input)[static_cast<size_t>(dimension)];
  if (range_of(node.graph, indices).low >= 0) return expect_inside(node, input, dimension, indices);
  // A negative index becomes one that is outside of the range that the runtime looks at.
  const Arithmetic m(node);
  indices = node.converted(indices, node.builder.getI64Type());
  indices = m.select(m.compare(tx::CompareKind::lt, indices, m.number(indices, 0)), m.sub(indices, m.extent(extent, indices)), indices);
  expect(node, input, dimension, indices, {}, named(dimension) + ", which takes no negative indices (shown less the extent)");
}

void expect_not_zero(Node& node, Value divisor) {
  if (!llvm::isa<IntegerType>(Node::type_of(divisor).getElementType())) return;
  if (DenseElementsAttr constant = known_elements(divisor)) {
    const bool has_zero = constant.isSplat() ? constant.getSplatValue<APInt>().isZero()
                                             : llvm::any_of(constant.getValues<APInt>(), [](const APInt& value) { return value.isZero(); });
    if (has_zero && !constant.empty()) node.fail("an integer is divided by zero: its constant divisor contains a zero");
    return;
  }
  Range range = range_of(node.graph, divisor);
  if (range.low > 0 || range.high < 0) return;
  node.graph.expected.push_back({divisor, {}, {}, {}});
}

void make_checks(Node& node) {
  for (const Expected& expected : node.graph.expected) {
    bool is_index = static_cast<bool>(expected.extent);
    Value verdict = is_index ? verdict_of_indices(node, expected.value, expected.column) : verdict_of_divisor(node, expected.value);
    AffineExpr limit = is_index ? expected.extent * 2 : node.builder.getAffineConstantExpr(1);
    node.graph.checks.push_back({verdict, limit, is_index, node.location(), expected.where});
  }
  node.graph.expected.clear();
}

ArrayAttr describe_checks(const Graph& graph, SmallVectorImpl<Value>& results) {
  OpBuilder& builder = graph.builder;
  SmallVector<Attribute> checks;
  for (const Check& check : graph.checks) {
    results.push_back(check.verdict);
    AffineMap limit = AffineMap::get(0, static_cast<unsigned>(graph.symbols.names().size()), check.limit);
    SmallVector<NamedAttribute> named = {{builder.getStringAttr("kind"), builder.getStringAttr(check.is_index ? "index" : "divisor")},
                                         {builder.getStringAttr("limit"), AffineMapAttr::get(limit)},
                                         {builder.getStringAttr("node"), llvm::cast<NameLoc>(check.location).getName()}};
    if (!check.where.empty()) named.push_back({builder.getStringAttr("where"), builder.getStringAttr(check.where)});
    checks.push_back(builder.getDictionaryAttr(named));
  }
  return builder.getArrayAttr(checks);
}

}  // namespace heddle::import
