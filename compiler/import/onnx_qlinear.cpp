// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and convolutions of quantized tensors: QLinearMatMul and QLinearConv, which compute in f32 like QuantizeLinear and DequantizeLinear around a
// product (docs/operators.md), and ConvInteger, which is exact.
#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_matrices.h"
#include "compiler/import/onnx_window.h"

using namespace mlir;

namespace heddle::import {
namespace {

void need_bytes(Node& node, int index) {
  if (!Node::type_of(node.input(index)).getElementType().isInteger(8))
    node.refuse_inputs("input " + std::to_string(index) + " needs elements of 8 bits");
}

// A scale or a zero point as `to`, spread over the tensor: one number, or one for each index of `dimension`, which it has alone or with extents of 1.
Value spread_over(Node& node, int index, Value tensor, int64_t dimension, Type to) {
  Value value = node.converted(node.input(index), to);
  const Extents own = Node::extents_of(value), extents = Node::extents_of(tensor);
  AffineExpr one = node.builder.getAffineConstantExpr(1);
  if (llvm::all_of(own, [&](AffineExpr extent) { return extent == one; })) return node.broadcast(node.reshape(value, {}), extents);
  if (own.size() == 1) {
    if (!node.are_equal(extents[dimension], own[0]))
      node.refuse_inputs("input " + std::to_string(index) + " does not have one element for each index of dimension " +
                         std::to_string(dimension));
    Arithmetic m(node);
    return m.spread(node.with_extents(value, {extents[dimension]}), extents, {dimension});
  }
  return node.broadcast(value, extents);
}

// The tensor less its zero point, as `to`.
Value centered(Node& node, int index, int zero, int64_t dimension, Type to) {
  Value value = node.converted(node.input(index), to);
  if (!node.has_input(zero)) return value;
  if (Node::type_of(node.input(zero)).getElementType() != Node::type_of(node.input(index)).getElementType())
    node.refuse_inputs("the element types of input " + std::to_string(index) + " and its zero point differ");
  return Arithmetic(node).sub(value, spread_over(node, zero, value, dimension, to));
}

// Rounded, plus the zero point, as its type.
Value quantized(Node& node, Value value, int zero) {
  Arithmetic m(node);
  value = m.round(value);
  if (!node.has_input(zero)) node.fail("it has no zero point of the result");
  const Type to = Node::type_of(node.input(zero)).getElementType();
  if (!to.isInteger(8)) node.refuse_inputs("the zero point of the result needs elements of 8 bits");
  const auto last = static_cast<int64_t>(Node::extents_of(value).size()) - 1;
  return node.converted(m.add(value, spread_over(node, zero, value, last, node.builder.getF32Type())), to);
}

void qlinear_matmul(Node& node) {
  if (node.input_count() != 8) node.fail("it needs 8 inputs");
  need_bytes(node, 0);
  need_bytes(node, 3);
  const Type f32 = node.builder.getF32Type();
  const auto rows = static_cast<int64_t>(Node::extents_of(node.input(0)).size()) - 2,
             columns = static_cast<int64_t>(Node::extents_of(node.input(3)).size()) - 1;
  if (rows < -1 || columns < 0) node.refuse_inputs("its inputs need rank 1 or more");
  const Matrices matrices = matrices_of(node, centered(node, 0, 2, std::max<int64_t>(rows, 0), f32), centered(node, 3, 5, columns, f32));
  Arithmetic m(node);
  Value result = node.make<tx::MatmulOp>(node.tensor_type(matrices.extents, f32), matrices.a, matrices.b);
  const auto last = static_cast<int64_t>(matrices.extents.size()) - 1;
  Value scale = m.mul(spread_over(node, 1, result, last - 1, f32), spread_over(node, 4, result, last, f32));
  result = quantized(node, m.mul(result, m.div(scale, spread_over(node, 6, result, last - 1, f32))), 7);
  node.set_result(matrices.result(node, result));
}

void qlinear_conv(Node& node) {
  if (node.input_count() < 8) node.fail("it needs 8 or 9 inputs");
  need_bytes(node, 0);
  need_bytes(node, 3);
  const Type f32 = node.builder.getF32Type();
  Value result = convolved(node, centered(node, 0, 2, 1, f32), centered(node, 3, 5, 0, f32));  // channels-last
  const auto channels = static_cast<int64_t>(Node::extents_of(result).size()) - 1;
  Arithmetic m(node);
  if (node.has_input(8)) result = m.add(result, spread_over(node, 8, result, channels, f32));
  Value scale = m.mul(spread_over(node, 1, result, channels, f32), spread_over(node, 4, result, channels, f32));
  result = m.mul(result, m.div(scale, spread_over(node, 6, result, channels, f32)));
  node.set_result(node.channels_first(quantized(node, result, 7)));
}

void conv_integer(Node& node) {
  need_bytes(node, 0);
  need_bytes(node, 1);
  const Type i32 = node.builder.getI32Type();
  node.set_result(node.channels_first(convolved(node, centered(node, 0, 2, 1, i32), centered(node, 1, 3, 0, i32))));
}

}  // namespace

const Table& qlinear_operators() {
  static const Table table = {
      {"ConvInteger", conv_integer},
      {"QLinearConv", qlinear_conv},
      {"QLinearMatMul", qlinear_matmul},
  };
  return table;
}

}  // namespace heddle::import
