// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/float_functions.h"

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

}  // namespace heddle::import
