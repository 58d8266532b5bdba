// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions, reductions and softmax.
#include <limits>

#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_matrices.h"

using namespace mlir;

namespace heddle::import {

Matrices matrices_of(Node& node, Value a, Value b) {
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  Extents ae = Node::extents_of(a), be = Node::extents_of(b);
  if (ae.empty() || be.empty()) node.refuse_inputs("its inputs need rank 1 or more");
  bool vector_a = ae.size() == 1, vector_b = be.size() == 1;
  if (vector_a) a = node.reshape(a, ae = {one, ae[0]});
  if (vector_b) b = node.reshape(b, be = {be[0], one});
  AffineExpr& inner = be[be.size() - 2];
  if (!node.are_equal(ae.back(), inner)) node.refuse_inputs("the inner extents of A and B differ");
  inner = ae.back();
  b = node.with_extents(b, be);
  // batch dimensions are broadcast; a plain matrix on the right is used for all of them as it is
  Extents batch;
  size_t batch_rank = std::max(ae.size(), be.size()) - 2;
  for (size_t i = 0; i < batch_rank; ++i) {
    auto at = [&](const Extents& e) { return i + e.size() < batch_rank + 2 ? one : e[i + e.size() - batch_rank - 2]; };
    AffineExpr x = at(ae), y = at(be);
    if (x != one && y != one && !node.are_equal(x, y)) node.refuse_inputs("batch dimension " + std::to_string(i) + " does not broadcast");
    batch.push_back(x == one ? y : x);
  }
  Extents a_full(batch), b_full(batch), extents(batch);
  a_full.append({ae[ae.size() - 2], ae.back()});
  b_full.append({be[be.size() - 2], be.back()});
  extents.append({ae[ae.size() - 2], be.back()});
  a = node.broadcast(a, a_full);
  if (be.size() > 2) b = node.broadcast(b, b_full);
  return {a, b, extents, vector_a, vector_b};
}

namespace {

void refuse_bools(Node& node, Value value) {
  if (Node::type_of(value).getElementType().isInteger(1)) node.refuse_inputs("bools have no products");
}

void gemm(Node& node) {
  Value a = node.input(0), b = node.input(1);
  refuse_bools(node, a);
  RankedTensorType a_type = Node::type_of(a), b_type = Node::type_of(b);
  if (a_type.getRank() != 2 || b_type.getRank() != 2) node.refuse_inputs("A and B need rank 2");
  bool trans_a = node.integer("transA", 0) != 0, trans_b = node.integer("transB", 0) != 0;
  Extents ae = Node::extents_of(a), be = Node::extents_of(b);
  AffineExpr& inner = be[trans_b ? 1 : 0];
  if (!node.are_equal(ae[trans_a ? 0 : 1], inner)) node.refuse_inputs("the inner extents of A and B differ");
  inner = ae[trans_a ? 0 : 1];
  b = node.with_extents(b, be);
  Extents extents{ae[trans_a ? 1 : 0], be[trans_b ? 0 : 1]};
  RankedTensorType type = node.tensor_type(extents, a_type.getElementType());
  if (trans_a) a = node.transpose(a, {1, 0});
  if (trans_b) b = node.transpose(b, {1, 0});
  Value result = node.make<tx::MatmulOp>(type, a, b);
  double alpha = node.number("alpha", 1.0), beta = node.number("beta", 1.0);
  if (alpha != 1.0) result = node.make<tx::MulOp>(type, result, node.splat(type, alpha));
  if (node.has_input(2) && beta != 0.0) {
    Value c = node.broadcast(node.input(2), extents);
    if (beta != 1.0) c = node.make<tx::MulOp>(type, c, node.splat(type, beta));
    result = node.make<tx::AddOp>(type, result, c);
  }
  node.set_result(result);
}

void matmul(Node& node) {
  refuse_bools(node, node.input(0));
  Matrices m = matrices_of(node, node.input(0), node.input(1));
  node.set_result(m.result(node, node.make<tx::MatmulOp>(node.tensor_type(m.extents, Node::type_of(m.a).getElementType()), m.a, m.b)));
}

// A zero point of MatMulInteger, in i32: one, or one for each row of A or column of B, with an extent of 1 along the depth. Null if it is absent or known to
// be 0.
Value zero_point(Node& node, int index, bool is_of_rows) {
  if (!node.has_input(index)) return {};
  Value zero = node.input(index);
  if (Node::type_of(zero).getElementType() != Node::type_of(node.input(index - 2)).getElementType())
    node.refuse_inputs("the element types of a matrix and its zero point differ");
  if (DenseElementsAttr known = known_elements(zero); known && known.isSplat() && known.getSplatValue<APInt>().isZero()) return {};
  zero = node.converted(zero, node.builder.getI32Type());
  Extents extents = Node::extents_of(zero);
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  if (llvm::all_of(extents, [&](AffineExpr extent) { return extent == one; })) return node.reshape(zero, {});
  if (is_of_rows && extents.size() == 1) extents.push_back(one);
  if (extents.size() > 1 && extents[extents.size() - (is_of_rows ? 1 : 2)] != one)
    node.refuse_inputs(std::string("a zero point is not one number, nor one for each ") + (is_of_rows ? "row of A" : "column of B"));
  return node.reshape(zero, extents);
}

// (A - a_zero) (B - b_zero) = A B - a_zero (sums of B's columns) - (sums of the rows of A - a_zero) b_zero, so that bytes are multiplied with bytes.
void matmul_integer(Node& node) {
  auto is_byte = [](Value value) { return Node::type_of(value).getElementType().isInteger(8); };
  if (!is_byte(node.input(0)) || !is_byte(node.input(1))) node.refuse_inputs("A and B need elements of 8 bits");
  refuse_bools(node, node.input(0));
  Matrices m = matrices_of(node, node.input(0), node.input(1));
  const Type i32 = node.builder.getI32Type();
  RankedTensorType type = node.tensor_type(m.extents, i32);
  Value result = node.make<tx::MatmulOp>(type, m.a, m.b);
  Value a_zero = zero_point(node, 2, /*is_of_rows=*/true), b_zero = zero_point(node, 3, /*is_of_rows=*/false);
  auto subtract = [&](Value from, Value value) {
    return node.make<tx::SubOp>(Node::type_of(from), from, node.broadcast(value, Node::extents_of(from)));
  };
  // Over the depth, which is the last dimension of A, and the one before the last of B.
  auto sums = [&](Value value, size_t from_end) {
    Extents extents = Node::extents_of(value);
    const auto depth = static_cast<int64_t>(extents.size() - from_end);
    Extents kept = extents;
    kept[static_cast<size_t>(depth)] = node.builder.getAffineConstantExpr(1);
    extents.erase(extents.begin() + depth);
    return node.reshape(node.make<tx::ReduceOp>(node.tensor_type(extents, i32), tx::ReduceKind::sum, value, ArrayRef<int64_t>{depth}),
                        kept);
  };
  auto subtract_product = [&](Value column, Value row) {
    result = subtract(result, node.make<tx::MulOp>(type, node.broadcast(column, m.extents), node.broadcast(row, m.extents)));
  };
  if (a_zero) subtract_product(a_zero, sums(node.converted(m.b, i32), 2));
  if (b_zero) {
    Value a = node.converted(m.a, i32);
    subtract_product(sums(a_zero ? subtract(a, a_zero) : a, 1), b_zero);
  }
  node.set_result(m.result(node, result));
}

// From opset 13 on over one axis; before, over all dimensions from the axis on.
void softmax(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  bool log = node.type() == "LogSoftmax";
  int64_t axis = node.axis(node.integer("axis", node.opset() < 13 ? 1 : -1), type.getRank());
  auto i64 = [&](int64_t value) { return node.builder.getI64IntegerAttr(value); };
  if (node.opset() >= 13 || axis == type.getRank() - 1) {
    node.set_result(node.make<tx::SoftmaxOp>(type, input, i64(axis), log ? node.builder.getUnitAttr() : UnitAttr()));
    return;
  }
  Extents extents = tx::extents(type);
  AffineExpr outer = node.builder.getAffineConstantExpr(1), inner = outer;
  for (auto [i, extent] : llvm::enumerate(extents)) {
    AffineExpr& side = static_cast<int64_t>(i) < axis ? outer : inner;
    side = node.computed(product(side, extent));
  }
  Value flat = node.reshape(input, {outer, inner});
  Value result = node.make<tx::SoftmaxOp>(Node::type_of(flat), flat, i64(1), log ? node.builder.getUnitAttr() : UnitAttr());
  node.set_result(node.reshape(result, extents));
}

// Axes are an attribute, and an input from opset 13 (ReduceSum) or 18 (the others) on. With noop_with_empty_axes and no axes, nothing is reduced.
struct Reduction {
  std::vector<int64_t> axes;
  Extents reduced, kept;           // of the result, without the axes and with them as 1
  std::optional<Extents> settled;  // of the node's result, if axes are data
};

// The number of axes, if they are data.
std::optional<int64_t> axes_in_data(Node& node) {
  if (!is_data(node, 1)) return {};
  return Node::type_of(vector_of(node, 1).value()).getNumElements();
}

// Each dimension becomes two, (1, n) if it is reduced and (n, 1) if not, of which the second one is reduced.
Reduction reduce_by_data(Node& node, Value& input) {
  const Extents extents = Node::extents_of(input);
  const auto rank = static_cast<int64_t>(extents.size());
  const Integers axes = axes_from(node, 1, rank), gone = is_axis(node, axes, rank), given = numbers_of(node, extents);
  const Integers one = given.number(1);
  std::vector<AffineExpr> parts = read_extents(node, joined(node, {one.where(gone, given), given.where(gone, one)}),
                                               "extent, or number of reduced elements, in dimension");
  Reduction result;
  Extents split;
  for (int64_t i = 0; i < rank; ++i) {
    AffineExpr outer = parts[static_cast<size_t>(i)];
    split.append({outer, parts[static_cast<size_t>(rank + i)]});
    result.axes.push_back(2 * i + 1);
    result.reduced.push_back(outer);
    result.kept.append({outer, node.builder.getAffineConstantExpr(1)});
  }
  result.settled = result.reduced;
  if (node.integer("keepdims", 1) == 0) {
    result.settled.emplace();
    llvm::append_range(*result.settled, without_axes(node, extents, axes));
  }
  input = node.reshape(input, split);
  return result;
}

// The input may get another shape.
Reduction read_reduction(Node& node, Value& input) {
  const Extents extents = Node::extents_of(input);
  auto rank = static_cast<int64_t>(extents.size());
  Reduction result;
  if (std::optional<int64_t> count = axes_in_data(node)) {
    if (*count > 0 && rank > 1) return reduce_by_data(node, input);
    if (*count > 0) axes_from(node, 1, rank);  // whether it is one
    if (*count > 0 && rank == 1) result.axes = {0};
  } else {
    result.axes = node.has_input(1) ? node.integers(1) : node.integer_list("axes", std::vector<int64_t>{});
  }
  if (result.axes.empty() && node.integer("noop_with_empty_axes", 0) == 0) {
    for (int64_t i = 0; i < rank; ++i) result.axes.push_back(i);
  }
  for (int64_t& axis : result.axes) axis = node.axis(axis, rank);
  llvm::sort(result.axes);
  result.axes.erase(std::unique(result.axes.begin(), result.axes.end()), result.axes.end());
  for (int64_t i = 0; i < rank; ++i) {
    bool gone = llvm::is_contained(result.axes, i);
    if (!gone) result.reduced.push_back(extents[i]);
    result.kept.push_back(gone ? node.builder.getAffineConstantExpr(1) : extents[i]);
  }
  return result;
}

Value reduced(Node& node, tx::ReduceKind kind, Value value, const Reduction& how) {
  if (how.axes.empty()) return value;
  return node.make<tx::ReduceOp>(node.tensor_type(how.reduced, Node::type_of(value).getElementType()), kind, value, how.axes);
}

void set_reduced(Node& node, Value value, const Reduction& how) {
  if (how.settled) return node.set_result(node.integer("keepdims", 1) != 0 ? value : reshape_to(node, value, *how.settled));
  node.set_result(node.integer("keepdims", 1) != 0 ? node.reshape(value, how.kept) : value);
}

// The sum or the product of all elements of a shape, such as the number of elements of a tensor.
bool reduce_elements(Node& node, tx::ReduceKind kind) {
  const Operand& operand = node.operand(0);
  if ((kind != tx::ReduceKind::sum && kind != tx::ReduceKind::prod) || !operand.is_folded() || operand.rank != 1) return false;
  const bool is_input = node.has_input(1);
  if (is_input && !node.operand(1).is_shape()) return false;
  if (!is_input && node.integer("noop_with_empty_axes", 0) != 0) return false;
  const std::vector<int64_t> axes = is_input ? node.integers(1) : node.integer_list("axes", std::vector<int64_t>{0});
  if (axes.size() != 1 || node.axis(axes[0], 1) != 0) return false;
  AffineExpr result = node.builder.getAffineConstantExpr(kind == tx::ReduceKind::prod);
  for (AffineExpr element : *operand.elements) result = kind == tx::ReduceKind::prod ? product(result, element) : sum(result, element);
  auto number = result ? tx::static_extent(result) : std::nullopt;
  if (!result || (number && operand.bits == 32 && !llvm::isInt<32>(*number))) return false;
  node.set_elements({result}, node.integer("keepdims", 1) != 0 ? 1 : 0, operand.bits);
  return true;
}

template <tx::ReduceKind kind>
void reduce(Node& node) {
  if (reduce_elements(node, kind)) return;
  Value input = node.input(0);
  Reduction how = read_reduction(node, input);
  set_reduced(node, reduced(node, kind, input, how), how);
}

// The type in which roots and logarithms are computed: f64 for integers, which are then truncated.
Type float_type(Node& node, Type element) {
  return llvm::isa<FloatType>(element) ? element : node.builder.getF64Type();
}

template <typename OpT>
Value in_floats(Node& node, Value value) {
  Type element = Node::type_of(value).getElementType();
  value = node.converted(value, float_type(node, element));
  return node.converted(node.make<OpT>(Node::type_of(value), value), element);
}

// ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum: a function of the sum of a function.
void reduce_composed(Node& node) {
  Value value = node.input(0);
  Reduction how = read_reduction(node, value);
  RankedTensorType type = Node::type_of(value);
  const std::string& name = node.type();
  if (name == "ReduceL1") value = node.make<tx::AbsOp>(type, value);
  if (name == "ReduceL2" || name == "ReduceSumSquare") value = node.make<tx::MulOp>(type, value, value);
  value = reduced(node, tx::ReduceKind::sum, value, how);
  if (name == "ReduceL2") value = in_floats<tx::SqrtOp>(node, value);
  if (name == "ReduceLogSum") value = in_floats<tx::LogOp>(node, value);
  set_reduced(node, value, how);
}

// The largest element is subtracted, so that nothing overflows, unless it is infinite.
void reduce_log_sum_exp(Node& node) {
  Value input = node.input(0);
  Type element = Node::type_of(input).getElementType();
  input = node.converted(input, float_type(node, element));
  Reduction how = read_reduction(node, input);
  RankedTensorType type = Node::type_of(input);
  Value largest = reduced(node, tx::ReduceKind::max, input, how);
  RankedTensorType small = Node::type_of(largest), bools = tx::with_element_type(small, node.builder.getI1Type());
  Value infinity = node.splat(small, std::numeric_limits<double>::infinity());
  Value is_finite = node.make<tx::CompareOp>(bools, tx::CompareKind::lt, node.make<tx::AbsOp>(small, largest), infinity);
  largest = node.make<tx::SelectOp>(small, is_finite, largest, node.splat(small, 0));
  Value shifted = node.make<tx::SubOp>(type, input, node.broadcast(node.reshape(largest, how.kept), tx::extents(type)));
  Value sum = reduced(node, tx::ReduceKind::sum, node.make<tx::ExpOp>(type, shifted), how);
  Value result = node.make<tx::AddOp>(small, node.make<tx::LogOp>(small, sum), largest);
  set_reduced(node, node.converted(result, element), how);
}

template <tx::ReduceKind kind>
void arg_reduce(Node& node) {
  Value input = node.input(0);
  Extents extents = Node::extents_of(input), reduced = extents, kept = extents;
  int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(extents.size()));
  reduced.erase(reduced.begin() + axis);
  kept[axis] = node.builder.getAffineConstantExpr(1);
  bool last = node.integer("select_last_index", 0) != 0;
  Value result = node.make<tx::ArgReduceOp>(node.tensor_type(reduced, node.builder.getI64Type()), kind, input, axis, last);
  node.set_result(node.integer("keepdims", 1) != 0 ? node.reshape(result, kept) : result);
}

// An axis that is data: the dimensions before and behind it are joined, so that it is the second one of three.
void cumsum_by_data(Node& node, Value input) {
  RankedTensorType type = Node::type_of(input);
  const int64_t rank = type.getRank();
  const Integers axis = axes_from(node, 1, rank);
  if (Node::type_of(axis.value()).getNumElements() != 1) node.fail("it needs 1 axis");
  if (rank == 0) node.fail("its input is a scalar");
  Value value = input;
  int64_t along = 0;
  if (rank > 1) {
    const Integers given = numbers_of(node, tx::extents(type)), place = counted(node, rank), one = given.number(1);
    const Integers of{node, node.broadcast(node.reshape(axis.value(), {}), {node.builder.getAffineConstantExpr(rank)})};
    auto product_where = [&](const Integers& is) { return given.where(is, one).reduced(tx::ReduceKind::prod); };
    Extents parts;
    llvm::append_range(parts,
                       read_extents(node, joined(node, {product_where(place < of), product_where(place == of), product_where(of < place)}),
                                    "number of elements before, along or behind the axis"));
    value = node.reshape(input, parts);
    along = 1;
  }
  Value result =
      node.make<tx::CumsumOp>(Node::type_of(value), value, along, node.integer("exclusive", 0) != 0, node.integer("reverse", 0) != 0);
  node.set_result(node.reshape(result, tx::extents(type)));
}

void cumsum(Node& node) {
  Value input = node.input(0);
  RankedTensorType type = Node::type_of(input);
  if (is_data(node, 1)) return cumsum_by_data(node, input);
  std::vector<int64_t> axis = node.integers(1);
  if (axis.size() != 1) node.fail("it has " + std::to_string(axis.size()) + " axes; 1 was expected");
  node.set_result(node.make<tx::CumsumOp>(type, input, node.axis(axis[0], type.getRank()), node.integer("exclusive", 0) != 0,
                                          node.integer("reverse", 0) != 0));
}

}  // namespace

const Table& linear_operators() {
  static const Table table = {
      {"Gemm", gemm},
      {"ArgMax", arg_reduce<tx::ReduceKind::max>},
      {"ArgMin", arg_reduce<tx::ReduceKind::min>},
      {"CumSum", cumsum},
      {"LogSoftmax", softmax},
      {"MatMul", matmul},
      {"MatMulInteger", matmul_integer},
      {"ReduceL1", reduce_composed},
      {"ReduceL2", reduce_composed},
      {"ReduceLogSum", reduce_composed},
      {"ReduceLogSumExp", reduce_log_sum_exp},
      {"ReduceMax", reduce<tx::ReduceKind::max>},
      {"ReduceMean", reduce<tx::ReduceKind::mean>},
      {"ReduceMin", reduce<tx::ReduceKind::min>},
      {"ReduceProd", reduce<tx::ReduceKind::prod>},
      {"ReduceSum", reduce<tx::ReduceKind::sum>},
      {"ReduceSumSquare", reduce_composed},
      {"Softmax", softmax},
  };
  return table;
}

}  // namespace heddle::import
