// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/float_functions.h"

#include <cmath>
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

Value complement_of_erf(Node& node, Value x) {
  Arithmetic m(node);
  const RankedTensorType type = Node::type_of(x), wide = tx::with_element_type(type, node.builder.getF32Type());
  if (type.getElementTypeBitWidth() < 32) return node.make<tx::CastOp>(type, complement_of_erf(node, node.make<tx::CastOp>(wide, x)));
  auto number = [&](double value) { return m.number(x, value); };
  auto exp = [&](Value value) -> Value { return node.make<tx::ExpOp>(type, value); };
  Value size = m.abs(x), result;
  if (type.getElementType().isF64()) {
    // Far from zero a continued fraction (Abramowitz and Stegun, 7.1.14), of which 40 terms are enough from 2.5 on.
    Value fraction = size;
    for (int i = 40; i > 0; --i) fraction = m.add(size, m.div(number(i / 2.0), fraction));
    Value far = m.div(exp(m.sub(number(0), m.mul(size, size))), m.mul(fraction, number(std::sqrt(std::numbers::pi))));
    Value near = m.sub(number(1), node.make<tx::ErfOp>(type, size));
    result = m.select(m.compare(tx::CompareKind::gt, size, number(2.5)), far, near);
  } else {
    // A Chebyshev fit with a relative error below 1.2e-7 (Press et al., Numerical Recipes, erfcc). From 12 on it is 0. The square is divided so that
    // its larger part is exact.
    static constexpr double fit[] = {0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                     -0.18628806, 0.09678418,  0.37409196, 1.00002368};
    size = m.min(size, number(12));
    Value large = m.mul(size, number(4097)), high = m.sub(large, m.sub(large, size));
    Value rest = m.mul(m.sub(size, high), m.add(size, high));
    Value t = m.div(number(1), m.add(number(1), m.mul(size, number(0.5)))), sum = number(fit[0]);
    for (double one : llvm::ArrayRef(fit).drop_front()) sum = m.add(m.mul(sum, t), number(one));
    Value exponent = m.sub(m.sub(m.mul(sum, t), number(1.26551223)), rest);
    result = m.mul(t, m.mul(exp(m.sub(number(0), m.mul(high, high))), exp(exponent)));
  }
  return m.select(m.compare(tx::CompareKind::lt, x, number(0)), m.sub(number(2), result), result);
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
