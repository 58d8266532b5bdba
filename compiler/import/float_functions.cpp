// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/float_functions.h"

#include <numbers>

#include "compiler/import/main_function.h"
#include "compiler/import/onnx_arithmetic.h"

using namespace mlir;

namespace heddle::import {

Value exp_minus_one(Node& node, Value x) {
  Arithmetic m(node);
  Value one = m.number(x, 1), u = node.make<tx::ExpOp>(Node::type_of(x), x), less = m.sub(u, one);
  Value precise = m.div(m.mul(less, x), node.make<tx::LogOp>(Node::type_of(x), u));
  Value is_plain = m.compare(tx::CompareKind::eq, u, one), is_far = m.compare(tx::CompareKind::gt, m.abs(x), m.number(x, 1));
  return m.select(is_plain, x, m.select(is_far, less, precise));
}

Value log_plus_one(Node& node, Value x) {
  Arithmetic m(node);
  Value one = m.number(x, 1), u = m.add(x, one), log = node.make<tx::LogOp>(Node::type_of(x), u);
  Value precise = m.div(m.mul(log, x), m.sub(u, one));
  Value is_plain = m.compare(tx::CompareKind::eq, u, one), is_far = m.compare(tx::CompareKind::gt, m.abs(x), one);
  return m.select(is_plain, x, m.select(is_far, log, precise));
}

Value has_sign(Node& node, Value x) {
  Arithmetic m(node);
  Value zero = m.number(x, 0);
  Value is_below = m.compare(tx::CompareKind::lt, x, zero), is_zero = m.compare(tx::CompareKind::eq, x, zero);
  return m.select(is_zero, m.compare(tx::CompareKind::lt, m.div(m.number(x, 1), x), zero), is_below);
}

Value arc_tangent(Node& node, Value y, Value x) {
  Arithmetic m(node);
  constexpr double pi = std::numbers::pi;
  Value a = m.abs(y), b = m.abs(x), zero = m.number(x, 0), one = m.number(x, 1);
  Value are_equal = m.compare(tx::CompareKind::eq, a, b), is_zero = m.compare(tx::CompareKind::eq, a, zero);
  Value ratio = m.select(is_zero, zero, m.select(are_equal, one, m.div(a, b)));  // infinity / infinity counts as 1, 0 / 0 as 0
  Value is_any_nan = m.compare(tx::CompareKind::ne, m.add(a, b), m.add(a, b));
  ratio = m.select(is_any_nan, m.add(a, b), ratio);
  Value angle = call_operator(node.graph, node.location(), node.describe(), "Atan", {Operand{ratio, {}, 0}}).front();
  angle = m.select(has_sign(node, x), m.sub(m.number(x, pi), angle), angle);
  return m.select(has_sign(node, y), node.make<tx::NegOp>(Node::type_of(angle), angle), angle);
}

}  // namespace heddle::import
