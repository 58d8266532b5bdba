// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on each element, those of complex numbers included. Where floats have 16 bits or less, functions made of several steps are computed
// in f32.
#include <cmath>
#include <limits>

#include "compiler/import/float_functions.h"
#include "compiler/import/onnx_narrow.h"
#include "compiler/import/stablehlo_arithmetic.h"
#include "compiler/ir/bits.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Value input(Op& op, unsigned index) {
  return op.input(index);
}

// Two operands of one type.
std::pair<Value, Value> pair(Op& op) {
  op.expect(2);
  Value a = input(op, 0), b = input(op, 1);
  if (a.getType() != b.getType())
    op.fail("its operands are " + text_of(a.getType()) + " and " + text_of(b.getType()) + ", and have to be alike");
  return {a, b};
}

// ------------------------------------------------------------------------------------------------------- complex numbers

// Arithmetic on complex numbers in two tensors of floats.
struct Complex {
  Value re, im;
};

Complex complex_input(Op& op, unsigned index) {
  const Data& data = op.data(index);
  if (data.is_complex()) return {data.parts[0], data.parts[1]};
  Value real = op.input(index);
  return {real, op.number(real, 0)};
}
bool is_complex(Op& op, unsigned index) {
  return op.data(index).is_complex();
}
void set_complex(Op& op, Complex value) {
  Data data;
  data.parts = {value.re, value.im};
  op.set_data(std::move(data));
}

Complex multiply(Op& op, Complex a, Complex b) {
  return {sub(op, mul(op, a.re, b.re), mul(op, a.im, b.im)), add(op, mul(op, a.re, b.im), mul(op, a.im, b.re))};
}

// By the larger part of the divisor (R. L. Smith, Algorithm 116, 1962), so that no square overflows.
Complex divide(Op& op, Complex a, Complex b) {
  Value is_real_larger = op.compare(tx::CompareKind::ge, unary<tx::AbsOp>(op, b.re), unary<tx::AbsOp>(op, b.im));
  Value large = op.select(is_real_larger, b.re, b.im), small = op.select(is_real_larger, b.im, b.re);
  Value ratio = div(op, small, large), scale = add(op, large, mul(op, small, ratio));
  Value first = op.select(is_real_larger, a.re, a.im), second = op.select(is_real_larger, a.im, a.re);
  Value re = div(op, add(op, first, mul(op, second, ratio)), scale);
  Value im = div(op, sub(op, second, mul(op, first, ratio)), scale);
  return {re, op.select(is_real_larger, im, unary<tx::NegOp>(op, im))};
}

// sqrt(re^2 + im^2) without overflow.
Value magnitude(Op& op, Complex a) {
  Value x = unary<tx::AbsOp>(op, a.re), y = unary<tx::AbsOp>(op, a.im);
  Value large = op.binary<tx::MaxOp>(x, y), small = op.binary<tx::MinOp>(x, y), zero = op.number(x, 0);
  Value ratio = div(op, small, large);
  Value result = mul(op, large, unary<tx::SqrtOp>(op, add(op, op.number(x, 1), mul(op, ratio, ratio))));
  Value is_plain = op.compare(tx::CompareKind::eq, small, zero);  // 0 / 0 among them
  Value is_infinite = op.compare(tx::CompareKind::eq, large, op.number(x, infinity));
  return op.select(is_infinite, large, op.select(is_plain, large, result));
}

// ----------------------------------------------------------------------------------------------------- functions of floats

Value of_onnx(Op& op, const char* type, Value value) {
  return op.by_onnx(type, {Operand{value, {}, 0}}).front();
}

Value exp_minus_one(Op& op, Value x) {
  return import::exp_minus_one(op.node, x);
}
Value log_plus_one(Op& op, Value x) {
  return import::log_plus_one(op.node, x);
}

Value tangent(Op& op, Value x) {
  return div(op, unary<tx::SinOp>(op, x), unary<tx::CosOp>(op, x));
}

Value arc_tangent(Op& op, Value y, Value x) {
  return import::arc_tangent(op.node, y, x);
}

Value cube_root(Op& op, Value x) {
  const Type own = tx::element_of(x);
  Value wide = op.converted(x, op.builder.getF64Type()), a = unary<tx::AbsOp>(op, wide);
  Value root = op.binary<tx::PowOp>(a, op.number(a, 1.0 / 3));
  // One step of Newton's method: of f64, the power is not the nearest number.
  Value square = mul(op, root, root), next = sub(op, root, div(op, sub(op, mul(op, square, root), a), mul(op, square, op.number(a, 3))));
  Value is_finite = op.compare(tx::CompareKind::lt, a, op.number(a, infinity)),
        is_zero = op.compare(tx::CompareKind::eq, a, op.number(a, 0));
  root = op.select(is_finite, op.select(is_zero, wide, next), a);
  root = op.select(op.compare(tx::CompareKind::lt, wide, op.number(a, 0)), unary<tx::NegOp>(op, root), root);
  return op.converted(root, own);
}

Value round_away_from_zero(Op& op, Value x) {
  Value a = unary<tx::AbsOp>(op, x), down = unary<tx::FloorOp>(op, a);
  Value up = op.compare(tx::CompareKind::ge, sub(op, a, down), op.number(x, 0.5));
  Value rounded = op.select(up, add(op, down, op.number(x, 1)), down);
  Value is_whole = op.compare(tx::CompareKind::ge, a, op.number(x, 0x1p52));  // infinity minus infinity is not 0
  rounded = op.select(is_whole, a, rounded);
  return op.select(has_sign(op, x), unary<tx::NegOp>(op, rounded), rounded);
}

using Function = Value (*)(Op&, Value);

template <Function function>
void float_function(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  op.set_result(op.converted(function(op, computing(op, x)), tx::element_of(x)));
}

template <typename OpT>
Value tx_function(Op& op, Value x) {
  return unary<OpT>(op, x);
}

template <typename OpT>
void plain_float(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  op.set_result(unary<OpT>(op, x));
}

// A function of ONNX's.
void named(Op& op, const char* type) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  op.set_result(of_onnx(op, type, x));
}

void arc_cosine(Op& op) {
  named(op, "Acos");
}
void area_cosine(Op& op) {
  named(op, "Acosh");
}
void arc_sine(Op& op) {
  named(op, "Asin");
}
void area_sine(Op& op) {
  named(op, "Asinh");
}
void arc_tangent_of_one(Op& op) {
  named(op, "Atan");
}
void area_tangent(Op& op) {
  named(op, "Atanh");
}

// ------------------------------------------------------------------------------------------------- complex functions

// exp, log and others of complex numbers by those of floats.
Complex exponential_of(Op& op, Complex a) {
  Value size = unary<tx::ExpOp>(op, a.re);
  // Where the imaginary part is 0, so is the result's, also if the size is infinite.
  Value is_real = op.compare(tx::CompareKind::eq, a.im, op.number(a.im, 0));
  return {op.select(is_real, size, mul(op, size, unary<tx::CosOp>(op, a.im))),
          op.select(is_real, a.im, mul(op, size, unary<tx::SinOp>(op, a.im)))};
}
Complex logarithm_of(Op& op, Complex a) {
  return {unary<tx::LogOp>(op, magnitude(op, a)), arc_tangent(op, a.im, a.re)};
}
// (cosh a + cos b) and so on, from exp(x) and exp(-x).
std::pair<Value, Value> hyperbolic(Op& op, Value x) {  // cosh, sinh
  Value up = unary<tx::ExpOp>(op, x), down = unary<tx::ExpOp>(op, unary<tx::NegOp>(op, x)), half = op.number(x, 0.5);
  Value more = exp_minus_one(op, x);
  // sinh = (m + m / (m + 1)) / 2 with m = exp(x) - 1, without cancellation
  Value precise = mul(op, half, add(op, more, div(op, more, add(op, more, op.number(x, 1)))));
  Value is_small = op.compare(tx::CompareKind::lt, unary<tx::AbsOp>(op, x), op.number(x, 1));
  return {mul(op, half, add(op, up, down)), op.select(is_small, precise, mul(op, half, sub(op, up, down)))};
}
Complex square_root_of(Op& op, Complex a) {
  Value size = magnitude(op, a), half = op.number(size, 0.5), zero = op.number(size, 0);
  Value main = unary<tx::SqrtOp>(op, mul(op, half, add(op, size, unary<tx::AbsOp>(op, a.re))));
  Value other = div(op, mul(op, half, unary<tx::AbsOp>(op, a.im)), main);
  Value is_zero = op.compare(tx::CompareKind::eq, main, zero);
  other = op.select(is_zero, zero, other);
  Value is_right = op.compare(tx::CompareKind::ge, a.re, zero);
  Value im = op.select(is_right, other, main);
  return {op.select(is_right, main, other), op.select(has_sign(op, a.im), unary<tx::NegOp>(op, im), im)};
}
Complex tanh_of(Op& op, Complex a) {
  // (tanh x + i tan y) / (1 + i tanh x tan y)
  Value t = unary<tx::TanhOp>(op, a.re), u = tangent(op, a.im);
  return divide(op, {t, u}, {op.number(t, 1), mul(op, t, u)});
}
Complex sine_of(Op& op, Complex a) {
  auto [cosh, sinh] = hyperbolic(op, a.im);
  return {mul(op, unary<tx::SinOp>(op, a.re), cosh), mul(op, unary<tx::CosOp>(op, a.re), sinh)};
}
Complex cosine_of(Op& op, Complex a) {
  auto [cosh, sinh] = hyperbolic(op, a.im);
  return {mul(op, unary<tx::CosOp>(op, a.re), cosh), unary<tx::NegOp>(op, mul(op, unary<tx::SinOp>(op, a.re), sinh))};
}
Complex reciprocal_of(Op& op, Complex a) {
  return divide(op, {op.number(a.re, 1), op.number(a.re, 0)}, a);
}
Complex power_of(Op& op, Complex a, Complex b) {
  Complex result = exponential_of(op, multiply(op, b, logarithm_of(op, a)));
  Value zero = op.number(a.re, 0), size = magnitude(op, a);
  Value is_zero = op.compare(tx::CompareKind::eq, size, zero), has_exponent = op.compare(tx::CompareKind::ne, magnitude(op, b), zero);
  Value of_zero = op.select(has_exponent, zero, op.number(zero, 1));
  return {op.select(is_zero, of_zero, result.re), op.select(is_zero, zero, result.im)};
}

using ComplexFunction = Complex (*)(Op&, Complex);

// A function of floats and of complex numbers.
template <Function function, ComplexFunction complex>
void either(Op& op) {
  op.expect(1);
  if (!is_complex(op, 0)) return float_function<function>(op);
  set_complex(op, complex(op, complex_input(op, 0)));
}

Complex exp_minus_one_of(Op& op, Complex a) {
  // exp(x) cos y - 1 = (exp(x) - 1) cos y + (cos y - 1), and cos y - 1 = -2 sin(y / 2)^2
  Value half = unary<tx::SinOp>(op, mul(op, a.im, op.number(a.im, 0.5)));
  Value less = mul(op, op.number(half, -2), mul(op, half, half));
  Value re = add(op, mul(op, exp_minus_one(op, a.re), unary<tx::CosOp>(op, a.im)), less);
  return {re, mul(op, unary<tx::ExpOp>(op, a.re), unary<tx::SinOp>(op, a.im))};
}
Complex log_plus_one_of(Op& op, Complex a) {
  Value one = op.number(a.re, 1), right = add(op, a.re, one);
  // |1 + a|^2 = 1 + (2 x + x^2 + y^2)
  Value small = add(op, mul(op, a.re, add(op, a.re, op.number(a.re, 2))), mul(op, a.im, a.im));
  Value near = mul(op, op.number(small, 0.5), log_plus_one(op, small));
  Value is_near = op.compare(tx::CompareKind::lt, unary<tx::AbsOp>(op, small), op.number(small, 0.5));
  Complex far = logarithm_of(op, {right, a.im});
  return {op.select(is_near, near, far.re), far.im};
}
Complex logistic_of(Op& op, Complex a) {
  Complex power = exponential_of(op, {unary<tx::NegOp>(op, a.re), unary<tx::NegOp>(op, a.im)});
  return reciprocal_of(op, {add(op, power.re, op.number(power.re, 1)), power.im});
}
Complex tangent_of(Op& op, Complex a) {
  return divide(op, sine_of(op, a), cosine_of(op, a));
}
Complex rsqrt_of(Op& op, Complex a) {
  return reciprocal_of(op, square_root_of(op, a));
}

// The root with the smallest angle.
Complex cube_root_of(Op& op, Complex a) {
  Complex log = logarithm_of(op, a);
  Value third = op.number(a.re, 1.0 / 3), is_zero = op.compare(tx::CompareKind::eq, magnitude(op, a), op.number(a.re, 0));
  Complex root = exponential_of(op, {mul(op, log.re, third), mul(op, log.im, third)});
  return {op.select(is_zero, a.re, root.re), op.select(is_zero, a.im, root.im)};
}

void negate(Op& op) {
  op.expect(1);
  if (is_complex(op, 0)) {
    Complex a = complex_input(op, 0);
    return set_complex(op, {unary<tx::NegOp>(op, a.re), unary<tx::NegOp>(op, a.im)});
  }
  Value x = input(op, 0);
  if (is_bool(x)) op.fail("bools have no negative");
  op.set_result(is_float(x) ? unary<tx::NegOp>(op, x) : sub(op, op.number(x, 0), x));
}

void absolute(Op& op) {
  op.expect(1);
  if (is_complex(op, 0)) return op.set_result(magnitude(op, complex_input(op, 0)));
  Value x = input(op, 0);
  op.set_result(unary<tx::AbsOp>(op, x));
}

void sign(Op& op) {
  op.expect(1);
  if (is_complex(op, 0)) {
    Complex a = complex_input(op, 0);
    Value size = magnitude(op, a), is_zero = op.compare(tx::CompareKind::eq, size, op.number(size, 0));
    return set_complex(op, {op.select(is_zero, a.re, div(op, a.re, size)), op.select(is_zero, a.im, div(op, a.im, size))});
  }
  op.set_result(op.by_onnx("Sign", {Operand{input(op, 0), {}, 0}}).front());
}

// ------------------------------------------------------------------------------------------------------- arithmetic

template <typename OpT>
void arithmetic(Op& op) {
  constexpr bool is_add = std::is_same_v<OpT, tx::AddOp>, is_sub = std::is_same_v<OpT, tx::SubOp>, is_mul = std::is_same_v<OpT, tx::MulOp>;
  if (op.input_count() == 2 && (is_complex(op, 0) || is_complex(op, 1))) {
    Complex a = complex_input(op, 0), b = complex_input(op, 1);
    if (a.re.getType() != b.re.getType()) op.fail("its operands have different types");
    if constexpr (is_mul) return set_complex(op, multiply(op, a, b));
    if constexpr (is_add || is_sub) return set_complex(op, {op.binary<OpT>(a.re, b.re), op.binary<OpT>(a.im, b.im)});
    // The order of complex numbers is that of their parts, one after the other.
    Value is_less = op.select(op.compare(tx::CompareKind::eq, a.re, b.re), op.compare(tx::CompareKind::lt, a.im, b.im),
                              op.compare(tx::CompareKind::lt, a.re, b.re));
    constexpr bool is_min = std::is_same_v<OpT, tx::MinOp>;
    return set_complex(op, is_min ? Complex{op.select(is_less, a.re, b.re), op.select(is_less, a.im, b.im)}
                                  : Complex{op.select(is_less, b.re, a.re), op.select(is_less, b.im, a.im)});
  }
  auto [a, b] = like_pair(op);
  if (!is_bool(a)) return op.set_result(op.binary<OpT>(a, b));
  constexpr bool is_or = is_add || std::is_same_v<OpT, tx::MaxOp>, is_and = is_mul || std::is_same_v<OpT, tx::MinOp>;
  if (!is_or && !is_and) op.fail("bools have no difference");
  op.set_result(combined(op, is_or ? Combine::lor : Combine::land, a, b));
}

// Of integers, as XLA has it: x / 0 is -1, x % 0 is x.
void quotient(Op& op) {
  if (op.input_count() == 2 && (is_complex(op, 0) || is_complex(op, 1))) {
    Complex a = complex_input(op, 0), b = complex_input(op, 1);
    if (a.re.getType() != b.re.getType()) op.fail("its operands have different types");
    return set_complex(op, divide(op, a, b));
  }
  auto [a, b] = like_pair(op);
  Value result = div(op, a, b);
  if (!is_float(a)) {
    const bool is_unsigned = tx::element_of(a).isUnsignedInteger();
    Value zero = op.number(a, 0), all = is_unsigned ? sub(op, zero, op.number(a, 1)) : op.number(a, -1);
    result = op.select(op.compare(tx::CompareKind::eq, b, zero), all, result);
  }
  op.set_result(result);
}

void remainder(Op& op) {
  auto [a, b] = like_pair(op);
  if (is_float(a)) {
    Value rest = op.by_onnx("Mod", {Operand{a, {}, 0}, Operand{b, {}, 0}}, 1, [](onnx::NodeProto& node) {
                     auto& one = *node.add_attribute();
                     one.set_name("fmod");
                     one.set_type(onnx::AttributeProto::INT);
                     one.set_i(1);
                   }).front();
    return op.set_result(rest);
  }
  Value rest = sub(op, a, mul(op, div(op, a, b), b));
  op.set_result(op.select(op.compare(tx::CompareKind::eq, b, op.number(b, 0)), a, rest));
}

// By repeated squaring, which wraps around as products do; a negative power is 0, except of 1 and -1.
Value integer_power(Op& op, Value x, Value power) {
  const unsigned width = tx::element_of(x).getIntOrFloatBitWidth();
  Value zero = op.number(x, 0), one = op.number(x, 1), two = op.number(x, 2), result = one, base = x, rest = power;
  const bool is_unsigned = tx::element_of(x).isUnsignedInteger();
  Value is_negative = is_unsigned ? Value() : op.compare(tx::CompareKind::lt, power, zero);
  if (is_negative) rest = op.select(is_negative, zero, rest);
  for (unsigned bit = 0; bit < width - (is_unsigned ? 0 : 1); ++bit) {
    Value half = div(op, rest, two), is_odd = op.compare(tx::CompareKind::ne, rest, mul(op, half, two));
    result = op.select(is_odd, mul(op, result, base), result);
    base = mul(op, base, base);
    rest = half;
  }
  if (!is_negative) return result;
  Value is_odd = op.compare(tx::CompareKind::ne, power, mul(op, div(op, power, two), two));
  Value of_minus = op.select(is_odd, op.number(x, -1), one);
  Value inverse = op.select(op.compare(tx::CompareKind::eq, x, one), one,
                            op.select(op.compare(tx::CompareKind::eq, x, op.number(x, -1)), of_minus, zero));
  return op.select(is_negative, inverse, result);
}

void power(Op& op) {
  if (op.input_count() == 2 && (is_complex(op, 0) || is_complex(op, 1)))
    return set_complex(op, power_of(op, complex_input(op, 0), complex_input(op, 1)));
  auto [a, b] = like_pair(op);
  op.set_result(is_float(a) ? op.binary<tx::PowOp>(a, b) : integer_power(op, a, b));
}

void atan2(Op& op) {
  // Of complex numbers: -i log((x + i y) / sqrt(x^2 + y^2)).
  if (op.input_count() == 2 && (is_complex(op, 0) || is_complex(op, 1))) {
    const Complex y = complex_input(op, 0), x = complex_input(op, 1), yy = multiply(op, y, y), xx = multiply(op, x, x);
    const Complex length = square_root_of(op, {op.binary<tx::AddOp>(xx.re, yy.re), op.binary<tx::AddOp>(xx.im, yy.im)});
    const Complex point = {op.binary<tx::SubOp>(x.re, y.im), op.binary<tx::AddOp>(x.im, y.re)};
    const Complex angle = logarithm_of(op, divide(op, point, length));
    return set_complex(op, {angle.im, unary<tx::NegOp>(op, angle.re)});
  }
  auto [y, x] = like_pair(op);
  const Type own = tx::element_of(y);
  op.set_result(op.converted(arc_tangent(op, computing(op, y), computing(op, x)), own));
}

void clamp(Op& op) {
  op.expect(3);
  Value low = input(op, 0), x = input(op, 1), high = input(op, 2);
  const auto lead = static_cast<int64_t>(op.lead().size());
  for (Value* bound : {&low, &high}) {
    if (tx::element_of(*bound) != tx::element_of(x)) op.fail("its bounds have another element type");
    if (Op::rank_of(*bound) == lead && Op::rank_of(x) != lead) {
      SmallVector<int64_t> dimensions;
      for (int64_t i = 0; i < lead; ++i) dimensions.push_back(i);
      *bound = op.broadcast(*bound, Op::extents_of(x), dimensions);
    }
    if (bound->getType() != x.getType()) op.fail("its bounds are neither scalars nor of its operand's type");
  }
  op.set_result(op.binary<tx::MinOp>(op.binary<tx::MaxOp>(x, low), high));
}

// ------------------------------------------------------------------------------------------ comparisons and conversions

// Integers with the order of floats: -NaN, -infinity, .., -0, 0, .., infinity, NaN.
Value total_order(Op& op, Value x) {
  const unsigned width = tx::element_of(x).getIntOrFloatBitWidth();
  const Type integer = op.builder.getIntegerType(width);
  Value bits = op.make<tx::BitCastOp>(tx::with_element_type(Op::type_of(x), integer), x);
  RankedTensorType scalar = RankedTensorType::get({}, integer);
  Value rest = op.make<tx::ConstantOp>(scalar, DenseElementsAttr::get(scalar, APInt::getSignedMaxValue(width)));
  rest = op.broadcast(rest, Op::extents_of(x), {});
  return op.select(op.compare(tx::CompareKind::lt, bits, op.number(bits, 0)), op.binary<tx::BitXorOp>(bits, rest), bits);
}

void compare(Op& op) {
  op.expect(2);
  const std::string direction = op.word("comparison_direction", ""), type = op.word("compare_type", "");
  static const std::map<std::string, tx::CompareKind> kinds = {{"EQ", tx::CompareKind::eq}, {"NE", tx::CompareKind::ne},
                                                               {"LT", tx::CompareKind::lt}, {"LE", tx::CompareKind::le},
                                                               {"GT", tx::CompareKind::gt}, {"GE", tx::CompareKind::ge}};
  auto kind = kinds.find(direction);
  if (kind == kinds.end()) op.fail("comparison_direction '" + direction + "' is not one of EQ, NE, LT, LE, GT and GE");
  if (is_complex(op, 0) || is_complex(op, 1)) {
    Complex a = complex_input(op, 0), b = complex_input(op, 1);
    if (a.re.getType() != b.re.getType()) op.fail("its operands have different types");
    if (kind->second != tx::CompareKind::eq && kind->second != tx::CompareKind::ne) op.unsupported("complex numbers have no order");
    Value re = op.compare(kind->second, a.re, b.re), im = op.compare(kind->second, a.im, b.im);
    return op.set_result(combined(op, kind->second == tx::CompareKind::eq ? Combine::land : Combine::lor, re, im));
  }
  auto [a, b] = like_pair(op);
  if (type == "TOTALORDER" && is_float(a)) {
    a = total_order(op, a);
    b = total_order(op, b);
  }
  if (is_bool(a) && kind->second != tx::CompareKind::eq && kind->second != tx::CompareKind::ne) {
    const Type byte = op.builder.getIntegerType(8, false);
    a = op.converted(a, byte);
    b = op.converted(b, byte);
  }
  op.set_result(op.compare(kind->second, a, b));
}

void select(Op& op) {
  op.expect(3);
  const Data &a = op.data(1), &b = op.data(2);
  Value condition = op.input(0);
  if (!is_bool(condition)) op.fail("its first operand has to have bools");
  op.input(1);
  op.input(2);
  const auto lead = static_cast<int64_t>(op.lead().size());
  SmallVector<Value, 2> first = a.parts, second = b.parts;
  if (first.empty()) first.push_back(op.input(1));
  if (second.empty()) second.push_back(op.input(2));
  if (first.size() != second.size()) op.fail("its operands have different types");
  Data result;
  for (auto [x, y] : llvm::zip(first, second)) {
    if (x.getType() != y.getType()) {
      if (Op::rank_of(x) != Op::rank_of(y)) op.fail("its operands have different types");
      y = op.node.with_extents(y, Op::extents_of(x));
    }
    Value chosen = condition;
    if (Op::rank_of(chosen) == lead && Op::rank_of(x) != lead) {
      SmallVector<int64_t> dimensions;
      for (int64_t i = 0; i < lead; ++i) dimensions.push_back(i);
      chosen = op.broadcast(chosen, Op::extents_of(x), dimensions);
    }
    if (Op::rank_of(chosen) != Op::rank_of(x)) op.fail("its first operand is neither a scalar nor of the others' shape");
    chosen = op.node.with_extents(chosen, Op::extents_of(x));
    // The bits of narrow types are chosen as integers.
    if (const tx::NarrowFormat* narrow = tx::narrow_format(tx::element_of(x))) {
      RankedTensorType own = Op::type_of(x), stored = tx::with_element_type(own, tx::stored_type(*narrow, op.builder.getContext()));
      Value bits = op.select(chosen, op.make<tx::StoredOp>(stored, x), op.make<tx::StoredOp>(stored, y));
      result.parts.push_back(op.make<tx::StoredOp>(own, bits));
    } else {
      result.parts.push_back(op.select(chosen, x, y));
    }
  }
  op.set_data(std::move(result));
}

void convert(Op& op) {
  op.expect(1);
  const bool to_complex = llvm::isa<ComplexType>(getElementTypeOrSelf(op.source().getResult(0).getType()));
  const Type element = op.result_element();
  if (!to_complex) return op.set_result(op.converted(op.input(0), element));
  if (!op.data(0).is_complex()) {
    Value real = op.converted(op.input(0), element);
    return set_complex(op, {real, op.number(real, 0)});
  }
  Complex a = complex_input(op, 0);
  set_complex(op, {op.converted(a.re, element), op.converted(a.im, element)});
}

void make_complex(Op& op) {
  auto [a, b] = pair(op);
  set_complex(op, {a, b});
}
void real_part(Op& op) {
  op.expect(1);
  op.set_result(complex_input(op, 0).re);
}
void imaginary_part(Op& op) {
  op.expect(1);
  op.set_result(complex_input(op, 0).im);
}
void conjugate(Op& op) {
  op.expect(1);
  Complex a = complex_input(op, 0);
  set_complex(op, {a.re, unary<tx::NegOp>(op, a.im)});
}

void is_finite(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  op.set_result(op.compare(tx::CompareKind::lt, unary<tx::AbsOp>(op, x), op.number(x, infinity)));
}
void is_infinite(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  op.set_result(op.compare(tx::CompareKind::eq, unary<tx::AbsOp>(op, x), op.number(x, infinity)));
}

Value square(Op& op, Value x) {
  return mul(op, x, x);
}
Complex square_of(Op& op, Complex a) {
  return multiply(op, a, a);
}
Value complement_of_erf(Op& op, Value x) {
  return import::complement_of_erf(op.node, x);
}
Value sinh_of(Op& op, Value x) {
  return hyperbolic(op, x).second;
}
Value cosh_of(Op& op, Value x) {
  return hyperbolic(op, x).first;
}
Complex complex_cosh_of(Op& op, Complex a) {  // cos(i a)
  return cosine_of(op, {unary<tx::NegOp>(op, a.im), a.re});
}

}  // namespace

// Extents that only symbols state are made alike.
std::pair<Value, Value> like_pair(Op& op) {
  op.expect(2);
  Value a = input(op, 0), b = input(op, 1);
  if (a.getType() != b.getType() && Op::rank_of(a) == Op::rank_of(b) && tx::element_of(a) == tx::element_of(b)) {
    bool fits = true;
    for (auto [x, y] : llvm::zip(Op::extents_of(a), Op::extents_of(b))) fits &= op.node.are_equal(x, y);
    if (fits) b = op.node.with_extents(b, Op::extents_of(a));
  }
  return a.getType() == b.getType() ? std::pair(a, b) : pair(op);
}

void need_floats(Op& op, Value value) {
  if (!is_float(value)) op.fail("its operand is " + text_of(value.getType()) + ", and has to have floats");
}

void need_integers(Op& op, Value value) {
  if (!llvm::isa<IntegerType>(tx::element_of(value)))
    op.fail("its operand is " + text_of(value.getType()) + ", and has to have integers or bools");
}

// In f32 where the elements have fewer bits.
Value computing(Op& op, Value value) {
  need_floats(op, value);
  return tx::element_of(value).getIntOrFloatBitWidth() < 32 ? op.converted(value, op.builder.getF32Type()) : value;
}

Value has_sign(Op& op, Value x) {
  return import::has_sign(op.node, x);
}

Value combined(Op& op, Combine kind, Value a, Value b) {
  const bool of_bools = is_bool(a);
  switch (kind) {
    case Combine::add:
      return of_bools ? op.select(a, a, b) : op.binary<tx::AddOp>(a, b);
    case Combine::mul:
      return of_bools ? op.select(a, b, a) : op.binary<tx::MulOp>(a, b);
    case Combine::max:
      return of_bools ? op.select(a, a, b) : op.binary<tx::MaxOp>(a, b);
    case Combine::min:
      return of_bools ? op.select(a, b, a) : op.binary<tx::MinOp>(a, b);
    case Combine::land:
      return of_bools ? op.select(a, b, a) : op.binary<tx::BitAndOp>(a, b);
    case Combine::lor:
      return of_bools ? op.select(a, a, b) : op.binary<tx::BitOrOp>(a, b);
    case Combine::lxor:
      return of_bools ? op.compare(tx::CompareKind::ne, a, b) : op.binary<tx::BitXorOp>(a, b);
  }
  return a;
}

const Table& elementwise_ops() {
  static const Table table = {
      {"chlo.acos", {arc_cosine, kEach}},
      {"chlo.acosh", {area_cosine, kEach}},
      {"chlo.asin", {arc_sine, kEach}},
      {"chlo.asinh", {area_sine, kEach}},
      {"chlo.atan", {arc_tangent_of_one, kEach}},
      {"chlo.atanh", {area_tangent, kEach}},
      {"chlo.conj", {conjugate, kEach | kComplex}},
      {"chlo.cosh", {either<cosh_of, complex_cosh_of>, kEach | kComplex}},
      {"chlo.erf", {plain_float<tx::ErfOp>, kEach}},
      {"chlo.erfc", {float_function<complement_of_erf>, kEach}},
      {"chlo.is_inf", {is_infinite, kEach}},
      {"chlo.sinh", {float_function<sinh_of>, kEach}},
      {"chlo.square", {either<square, square_of>, kEach | kComplex}},
      {"chlo.tan", {either<tangent, tangent_of>, kEach | kComplex}},
      {"stablehlo.abs", {absolute, kEach | kComplex}},
      {"stablehlo.add", {arithmetic<tx::AddOp>, kEach | kComplex}},
      {"stablehlo.atan2", {atan2, kEach | kComplex}},
      {"stablehlo.cbrt", {either<cube_root, cube_root_of>, kEach | kComplex}},
      {"stablehlo.ceil", {plain_float<tx::CeilOp>, kEach}},
      {"stablehlo.clamp", {clamp, kEach}},
      {"stablehlo.compare", {compare, kEach | kComplex}},
      {"stablehlo.complex", {make_complex, kEach | kComplex}},
      {"stablehlo.convert", {convert, kEach | kComplex | kNarrow}},
      {"stablehlo.cosine", {either<tx_function<tx::CosOp>, cosine_of>, kEach | kComplex}},
      {"stablehlo.divide", {quotient, kEach | kComplex}},
      {"stablehlo.exponential", {either<tx_function<tx::ExpOp>, exponential_of>, kEach | kComplex}},
      {"stablehlo.exponential_minus_one", {either<exp_minus_one, exp_minus_one_of>, kEach | kComplex}},
      {"stablehlo.floor", {plain_float<tx::FloorOp>, kEach}},
      {"stablehlo.imag", {imaginary_part, kEach | kComplex}},
      {"stablehlo.is_finite", {is_finite, kEach}},
      {"stablehlo.log", {either<tx_function<tx::LogOp>, logarithm_of>, kEach | kComplex}},
      {"stablehlo.log_plus_one", {either<log_plus_one, log_plus_one_of>, kEach | kComplex}},
      {"stablehlo.logistic", {either<tx_function<tx::SigmoidOp>, logistic_of>, kEach | kComplex}},
      {"stablehlo.maximum", {arithmetic<tx::MaxOp>, kEach | kComplex}},
      {"stablehlo.minimum", {arithmetic<tx::MinOp>, kEach | kComplex}},
      {"stablehlo.multiply", {arithmetic<tx::MulOp>, kEach | kComplex}},
      {"stablehlo.negate", {negate, kEach | kComplex}},
      {"stablehlo.power", {power, kEach | kComplex}},
      {"stablehlo.real", {real_part, kEach | kComplex}},
      {"stablehlo.remainder", {remainder, kEach}},
      {"stablehlo.round_nearest_afz", {float_function<round_away_from_zero>, kEach}},
      {"stablehlo.round_nearest_even", {plain_float<tx::RoundOp>, kEach}},
      {"stablehlo.rsqrt", {either<tx_function<tx::RsqrtOp>, rsqrt_of>, kEach | kComplex}},
      {"stablehlo.select", {select, kEach | kComplex | kNarrow}},
      {"stablehlo.sign", {sign, kEach | kComplex}},
      {"stablehlo.sine", {either<tx_function<tx::SinOp>, sine_of>, kEach | kComplex}},
      {"stablehlo.sqrt", {either<tx_function<tx::SqrtOp>, square_root_of>, kEach | kComplex}},
      {"stablehlo.subtract", {arithmetic<tx::SubOp>, kEach | kComplex}},
      {"stablehlo.tan", {either<tangent, tangent_of>, kEach | kComplex}},
      {"stablehlo.tanh", {either<tx_function<tx::TanhOp>, tanh_of>, kEach | kComplex}},
  };
  return table;
}

}  // namespace heddle::import::stablehlo
