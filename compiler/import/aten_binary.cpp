// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic, comparisons and choices between two or more tensors or numbers, with PyTorch's promotion of types and broadcasting.
#include <cmath>

#include "compiler/import/aten_program.h"
#include "compiler/import/float_functions.h"
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_writer.h"

using namespace mlir;

namespace heddle::import::aten {
namespace {

struct Pair {
  Value a, b;
};

Type promoted_pair(Op& op) {
  return op.promoted({op.term("self"), op.term("other")});
}

// In a type, computed in f32 if that is a float of 16 bits.
Pair pair_in(Op& op, Type element, const char* first = "self", const char* second = "other") {
  SmallVector<Value> values = op.alike({op.term(first), op.term(second)}, element);
  return {values[0], values[1]};
}
Type wide(Op& op, Type element) {
  return element.isF16() || element.isBF16() ? Type(op.builder.getF32Type()) : element;
}
// As the operation computes: in the type of its result.
Pair pair(Op& op) {
  return pair_in(op, wide(op, op.result_element()));
}

Value times_alpha(Op& op, Value value) {
  if (!op.has("alpha")) return value;
  const Term alpha = op.term("alpha");
  auto is_one = [](Attribute number) {
    if (auto whole = llvm::dyn_cast_or_null<IntegerAttr>(number)) return whole.getValue() == 1;
    if (auto real = llvm::dyn_cast_or_null<FloatAttr>(number)) return real.getValueAsDouble() == 1;
    return false;
  };
  if (is_one(alpha.number)) return value;
  return op.m.mul(value, op.node.broadcast(op.value_of(alpha, Op::element_of(value)), Op::extents_of(value)));
}

void add(Op& op) {
  Pair p = pair(op);
  if (op.result_element().isInteger(1)) return op.set(op.is_true(op.m.add(op.flags(p.a), op.flags(p.b))));
  op.set(op.m.add(p.a, times_alpha(op, p.b)));
}
void sub(Op& op) {
  Pair p = pair(op);
  op.set(op.m.sub(p.a, times_alpha(op, p.b)));
}
void rsub(Op& op) {
  Pair p = pair(op);
  op.set(op.m.sub(p.b, times_alpha(op, p.a)));
}
void mul(Op& op) {
  Pair p = pair(op);
  if (op.result_element().isInteger(1)) return op.set(op.m.select(p.a, p.b, p.a));
  op.set(op.m.mul(p.a, p.b));
}

Value remainder_of_floats(Op& op, Pair p) {
  return op
      .by_onnx("Mod", {Operand{p.a, {}, 0}, Operand{p.b, {}, 0}}, 1,
               [](onnx::NodeProto& node) { NodeWriter::set(node, "fmod", int64_t{1}); })
      .front();
}
bool is_float(Value value) {
  return Op::is_float(Op::element_of(value));
}
Value differ_in_sign(Op& op, Value a, Value b) {
  Value a_below = op.flags(op.m.compare(tx::CompareKind::lt, a, op.m.number(a, 0))),
        b_below = op.flags(op.m.compare(tx::CompareKind::lt, b, op.m.number(b, 0)));
  return op.m.compare(tx::CompareKind::ne, a_below, b_below);
}
// With the sign of the dividend.
Value fmod_of(Op& op, Pair p) {
  if (is_float(p.a)) return remainder_of_floats(op, p);
  expect_not_zero(op.node, p.b);
  return op.m.sub(p.a, op.m.mul(op.m.div(p.a, p.b), p.b));
}
// With the sign of the divisor.
Value remainder_of(Op& op, Pair p) {
  Value rest = fmod_of(op, p);
  if (Op::element_of(p.a).isUnsignedInteger()) return rest;
  Value moves = op.m.both(op.m.compare(tx::CompareKind::ne, rest, op.m.number(rest, 0)), differ_in_sign(op, rest, p.b));
  return op.m.select(moves, op.m.add(rest, p.b), rest);
}
// Floats as PyTorch's div_floor: by the remainder, so that the quotient of the rounded numbers does not round up.
Value floor_quotient_of(Op& op, Pair p) {
  const Arithmetic& m = op.m;
  if (!is_float(p.a)) {
    expect_not_zero(op.node, p.b);
    Value quotient = m.div(p.a, p.b);
    if (Op::element_of(p.a).isUnsignedInteger()) return quotient;
    Value rest = m.sub(p.a, m.mul(quotient, p.b));
    Value moves = m.both(m.compare(tx::CompareKind::ne, rest, m.number(rest, 0)), differ_in_sign(op, rest, p.b));
    return m.select(moves, m.sub(quotient, m.number(quotient, 1)), quotient);
  }
  Value plain = m.div(p.a, p.b), rest = remainder_of_floats(op, p), zero = m.number(rest, 0);
  Value quotient = m.div(m.sub(p.a, rest), p.b);
  Value moves = m.both(m.compare(tx::CompareKind::ne, rest, zero), differ_in_sign(op, rest, p.b));
  quotient = m.select(moves, m.sub(quotient, m.number(quotient, 1)), quotient);
  Value down = m.floor(quotient);
  down = m.select(m.compare(tx::CompareKind::gt, m.sub(quotient, down), m.number(down, 0.5)), m.add(down, m.number(down, 1)), down);
  Value is_zero = m.compare(tx::CompareKind::eq, p.b, zero);
  return m.select(is_zero, plain, down);
}

void div(Op& op) {
  const std::string mode = op.word("rounding_mode", "");
  if (mode.empty()) {
    Pair p = pair(op);
    return op.set(op.m.div(p.a, p.b));
  }
  Pair p = pair(op);
  if (mode == "floor") return op.set(floor_quotient_of(op, p));
  if (mode != "trunc") op.fail("rounding_mode is '" + mode + "'; it is floor or trunc");
  if (!is_float(p.a)) {
    expect_not_zero(op.node, p.b);
    return op.set(op.m.div(p.a, p.b));
  }
  Value q = op.m.div(p.a, p.b);
  op.set(op.m.select(op.m.compare(tx::CompareKind::lt, q, op.m.number(q, 0)), op.unary<tx::CeilOp>(q), op.m.floor(q)));
}
void atan2(Op& op) {
  Pair p = pair(op);
  op.set(arc_tangent(op.node, p.a, p.b));
}
void floor_divide(Op& op) {
  op.set(floor_quotient_of(op, pair(op)));
}
void fmod(Op& op) {
  op.set(fmod_of(op, pair(op)));
}
void remainder(Op& op) {
  op.set(remainder_of(op, pair(op)));
}

template <typename OpT>
void chosen(Op& op) {
  Pair p = pair_in(op, op.result_element());
  if (Op::element_of(p.a).isInteger(1)) {
    Value a = op.flags(p.a), b = op.flags(p.b);
    return op.set(op.make<OpT>(Op::type_of(a), a, b));
  }
  op.set(op.make<OpT>(Op::type_of(p.a), p.a, p.b));
}

template <tx::CompareKind kind>
void compare(Op& op) {
  Pair p = pair_in(op, promoted_pair(op));
  if (Op::element_of(p.a).isInteger(1)) p = {op.flags(p.a), op.flags(p.b)};
  op.set(op.m.compare(kind, p.a, p.b));
}

enum class Logic { kAnd, kOr, kXor };
template <Logic logic>
Value combined(Op& op, Value a, Value b) {
  if (logic == Logic::kAnd) return op.m.select(a, b, a);
  if (logic == Logic::kOr) return op.m.select(a, a, b);
  return op.m.compare(tx::CompareKind::ne, op.flags(a), op.flags(b));
}
template <Logic logic>
void logical(Op& op) {
  Value a = op.is_true(op.value_of(op.term("self"), promoted_pair(op))), b = op.is_true(op.value_of(op.term("other"), promoted_pair(op)));
  SmallVector<Value> values = op.alike({{a, {}}, {b, {}}}, op.builder.getI1Type());
  op.set(combined<logic>(op, values[0], values[1]));
}
template <Logic logic>
void bitwise(Op& op) {
  Pair p = pair_in(op, op.result_element());
  if (op.result_element().isInteger(1)) return op.set(combined<logic>(op, p.a, p.b));
  const char* name = logic == Logic::kAnd ? "BitwiseAnd" : logic == Logic::kOr ? "BitwiseOr" : "BitwiseXor";
  op.set(op.one_by_onnx(name, {p.a, p.b}));
}

// Of integers. Distances below 0, and of as many bits as the type has or more, leave 0, or the sign of what goes to the right.
template <bool to_left>
void shift(Op& op) {
  const Type own = op.result_element();
  if (Op::is_float(own) || own.isInteger(1)) op.unsupported("shifts of floats and bools are not supported");
  Pair p = pair_in(op, own);
  const Type bits = op.builder.getIntegerType(own.getIntOrFloatBitWidth(), false);
  auto shifted = [&](Value value) {
    return op
        .by_onnx("BitShift", {Operand{op.converted(value, bits), {}, 0}, Operand{op.converted(p.b, bits), {}, 0}}, 1,
                 [](onnx::NodeProto& node) { NodeWriter::set(node, "direction", std::string(to_left ? "LEFT" : "RIGHT")); })
        .front();
  };
  if (to_left || own.isUnsignedInteger()) return op.set(shifted(p.a));
  // -1 - x has the bits of x turned over, and no sign.
  const Arithmetic& m = op.m;
  Value is_negative = m.compare(tx::CompareKind::lt, p.a, m.number(p.a, 0)), all = m.number(p.a, -1);
  Value made = op.converted(shifted(m.select(is_negative, m.sub(all, p.a), p.a)), own);
  op.set(m.select(is_negative, m.sub(all, made), made));
}

// Of integers, by squares.
Value whole_power(Op& op, Value x, uint64_t exponent) {
  Value made, square = x;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) made = made ? op.m.mul(made, square) : square;
    if (exponent > 1) square = op.m.mul(square, square);
  }
  return made ? made : op.m.number(x, 1);
}

void power(Op& op) {
  SmallVector<Term> terms{op.term("self"), op.term("exponent")};
  const Type element = op.result_element();
  std::optional<double> exponent;
  if (terms[1].number) exponent = op.number("exponent");
  if (!Op::is_float(element)) {
    if (exponent && *exponent >= 0 && *exponent <= 64)
      return op.set(whole_power(op, op.value_of(terms[0], element), static_cast<uint64_t>(*exponent)));
    op.unsupported("powers of integers are supported for exponents that are numbers from 0 to 64");
  }
  Value x = op.value_of(terms[0], wide(op, element));
  if (exponent) {
    if (*exponent == 1) return op.set(x);
    if (*exponent == 2) return op.set(op.m.mul(x, x));
    if (*exponent == 3) return op.set(op.m.mul(op.m.mul(x, x), x));
    if (*exponent == 0.5) return op.set(op.unary<tx::SqrtOp>(x));
    if (*exponent == -0.5) return op.set(op.unary<tx::RsqrtOp>(x));
    if (*exponent == -1) return op.set(op.unary<tx::ReciprocalOp>(x));
  }
  SmallVector<Value> values = op.alike(terms, wide(op, element));
  op.set(op.one_by_onnx("Pow", {values[0], values[1]}));
}

void where(Op& op) {
  SmallVector<Value> values = op.alike({op.term("self"), op.term("other")}, op.result_element());
  Value condition = op.is_true(op.tensor("condition"));
  const Extents extents = op.result_extents();
  op.set(op.m.select(op.node.broadcast(condition, extents), op.node.broadcast(values[0], extents), op.node.broadcast(values[1], extents)));
}
void masked_fill(Op& op) {
  Value x = op.tensor("self"), value = op.value_of(op.term("value"), Op::element_of(x)), mask = op.is_true(op.tensor("mask"));
  const Extents extents = op.result_extents();
  op.set(op.m.select(op.node.broadcast(mask, extents), op.node.broadcast(value, extents), op.node.broadcast(x, extents)));
}

// self + value * a * b, and self + value * a / b
template <bool divides>
void add_product(Op& op) {
  const Type element = wide(op, op.result_element());
  SmallVector<Value> values = op.alike({op.term("self"), op.term("tensor1"), op.term("tensor2")}, element);
  Value part = divides ? op.m.div(values[1], values[2]) : op.m.mul(values[1], values[2]);
  const double factor = op.number("value", 1);
  if (factor != 1) part = op.m.mul(part, op.m.number(part, factor));
  op.set(op.m.add(values[0], part));
}
void multiply_add(Op& op) {
  SmallVector<Value> values = op.alike({op.term("a"), op.term("b"), op.term("c")}, wide(op, op.result_element()));
  op.set(op.m.add(op.m.mul(values[0], values[1]), values[2]));
}
void lerp(Op& op) {
  const Type element = wide(op, op.result_element());
  SmallVector<Value> values = op.alike({op.term("self"), op.term("end"), op.term("weight")}, element);
  op.set(op.m.add(values[0], op.m.mul(values[2], op.m.sub(values[1], values[0]))));
}

// grad_output * (1 - output^2), and grad_output * output * (1 - output)
template <bool of_tanh>
void backward_by_output(Op& op) {
  SmallVector<Value> values = op.alike({op.term("grad_output"), op.term("output")}, wide(op, op.result_element()));
  Value y = values[1], one = op.m.number(y, 1);
  Value slope = of_tanh ? op.m.sub(one, op.m.mul(y, y)) : op.m.mul(y, op.m.sub(one, y));
  op.set(op.m.mul(values[0], slope));
}

}  // namespace

const Table& binary_ops() {
  static const Table table = {
      {"aten.__lshift__.Scalar", shift<true>},
      {"aten.__lshift__.Tensor", shift<true>},
      {"aten.__rshift__.Scalar", shift<false>},
      {"aten.__rshift__.Tensor", shift<false>},
      {"aten.add.Scalar", add},
      {"aten.add.Tensor", add},
      {"aten.addcdiv.default", add_product<true>},
      {"aten.addcmul.default", add_product<false>},
      {"aten.atan2.default", atan2},
      {"aten.bitwise_and.Scalar", bitwise<Logic::kAnd>},
      {"aten.bitwise_and.Tensor", bitwise<Logic::kAnd>},
      {"aten.bitwise_left_shift.Scalar_Tensor", shift<true>},
      {"aten.bitwise_left_shift.Tensor", shift<true>},
      {"aten.bitwise_left_shift.Tensor_Scalar", shift<true>},
      {"aten.bitwise_or.Scalar", bitwise<Logic::kOr>},
      {"aten.bitwise_or.Tensor", bitwise<Logic::kOr>},
      {"aten.bitwise_right_shift.Scalar_Tensor", shift<false>},
      {"aten.bitwise_right_shift.Tensor", shift<false>},
      {"aten.bitwise_right_shift.Tensor_Scalar", shift<false>},
      {"aten.bitwise_xor.Scalar", bitwise<Logic::kXor>},
      {"aten.bitwise_xor.Tensor", bitwise<Logic::kXor>},
      {"aten.div.Scalar", div},
      {"aten.div.Scalar_mode", div},
      {"aten.div.Tensor", div},
      {"aten.div.Tensor_mode", div},
      {"aten.eq.Scalar", compare<tx::CompareKind::eq>},
      {"aten.eq.Tensor", compare<tx::CompareKind::eq>},
      {"aten.floor_divide.default", floor_divide},
      {"aten.fmod.Scalar", fmod},
      {"aten.fmod.Tensor", fmod},
      {"aten.ge.Scalar", compare<tx::CompareKind::ge>},
      {"aten.ge.Tensor", compare<tx::CompareKind::ge>},
      {"aten.gt.Scalar", compare<tx::CompareKind::gt>},
      {"aten.gt.Tensor", compare<tx::CompareKind::gt>},
      {"aten.le.Scalar", compare<tx::CompareKind::le>},
      {"aten.le.Tensor", compare<tx::CompareKind::le>},
      {"aten.lerp.Scalar", lerp},
      {"aten.lerp.Tensor", lerp},
      {"aten.logical_and.default", logical<Logic::kAnd>},
      {"aten.logical_or.default", logical<Logic::kOr>},
      {"aten.logical_xor.default", logical<Logic::kXor>},
      {"aten.lt.Scalar", compare<tx::CompareKind::lt>},
      {"aten.lt.Tensor", compare<tx::CompareKind::lt>},
      {"aten.masked_fill.Scalar", masked_fill},
      {"aten.masked_fill.Tensor", masked_fill},
      {"aten.maximum.default", chosen<tx::MaxOp>},
      {"aten.minimum.default", chosen<tx::MinOp>},
      {"aten.mul.Scalar", mul},
      {"aten.mul.Tensor", mul},
      {"aten.ne.Scalar", compare<tx::CompareKind::ne>},
      {"aten.ne.Tensor", compare<tx::CompareKind::ne>},
      {"aten.pow.Scalar", power},
      {"aten.pow.Tensor_Scalar", power},
      {"aten.pow.Tensor_Tensor", power},
      {"aten.remainder.Scalar", remainder},
      {"aten.remainder.Tensor", remainder},
      {"aten.rsub.Scalar", rsub},
      {"aten.rsub.Tensor", rsub},
      {"aten.sigmoid_backward.default", backward_by_output<false>},
      {"aten.sub.Scalar", sub},
      {"aten.sub.Tensor", sub},
      {"aten.tanh_backward.default", backward_by_output<true>},
      {"aten.true_divide.Tensor", div},
      {"aten.where.ScalarSelf", where},
      {"aten.where.self", where},
      {"prims.fma.default", multiply_add},
  };
  return table;
}

}  // namespace heddle::import::aten
