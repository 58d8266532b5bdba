// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on each element, those of complex numbers and on bits included. Where floats have 16 bits or less, functions made of several steps are computed
// in f32.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/import/onnx_narrow.h"
#include "compiler/import/stablehlo_program.h"
#include "compiler/ir/bits.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_float(Value value) {
  return llvm::isa<FloatType>(tx::element_of(value));
}
bool is_bool(Value value) {
  return tx::element_of(value).isInteger(1);
}

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

Value add(Op& op, Value a, Value b) {
  return op.binary<tx::AddOp>(a, b);
}
Value sub(Op& op, Value a, Value b) {
  return op.binary<tx::SubOp>(a, b);
}
Value mul(Op& op, Value a, Value b) {
  return op.binary<tx::MulOp>(a, b);
}
Value div(Op& op, Value a, Value b) {
  return op.binary<tx::DivOp>(a, b);
}
template <typename OpT>
Value apply(Op& op, Value a) {
  return op.make<OpT>(Op::type_of(a), a);
}

Complex multiply(Op& op, Complex a, Complex b) {
  return {sub(op, mul(op, a.re, b.re), mul(op, a.im, b.im)), add(op, mul(op, a.re, b.im), mul(op, a.im, b.re))};
}

// By the larger part of the divisor (R. L. Smith, Algorithm 116, 1962), so that no square overflows.
Complex divide(Op& op, Complex a, Complex b) {
  Value is_real_larger = op.compare(tx::CompareKind::ge, apply<tx::AbsOp>(op, b.re), apply<tx::AbsOp>(op, b.im));
  Value large = op.select(is_real_larger, b.re, b.im), small = op.select(is_real_larger, b.im, b.re);
  Value ratio = div(op, small, large), scale = add(op, large, mul(op, small, ratio));
  Value first = op.select(is_real_larger, a.re, a.im), second = op.select(is_real_larger, a.im, a.re);
  Value re = div(op, add(op, first, mul(op, second, ratio)), scale);
  Value im = div(op, sub(op, second, mul(op, first, ratio)), scale);
  return {re, op.select(is_real_larger, im, apply<tx::NegOp>(op, im))};
}

// sqrt(re^2 + im^2) without overflow.
Value magnitude(Op& op, Complex a) {
  Value x = apply<tx::AbsOp>(op, a.re), y = apply<tx::AbsOp>(op, a.im);
  Value large = op.binary<tx::MaxOp>(x, y), small = op.binary<tx::MinOp>(x, y), zero = op.number(x, 0);
  Value ratio = div(op, small, large);
  Value result = mul(op, large, apply<tx::SqrtOp>(op, add(op, op.number(x, 1), mul(op, ratio, ratio))));
  Value is_plain = op.compare(tx::CompareKind::eq, small, zero);  // 0 / 0 among them
  Value is_infinite = op.compare(tx::CompareKind::eq, large, op.number(x, infinity));
  return op.select(is_infinite, large, op.select(is_plain, large, result));
}

// ----------------------------------------------------------------------------------------------------- functions of floats

// In f32 where the elements have fewer bits.
Value computing(Op& op, Value value) {
  need_floats(op, value);
  return tx::element_of(value).getIntOrFloatBitWidth() < 32 ? op.converted(value, op.builder.getF32Type()) : value;
}

Value of_onnx(Op& op, const char* type, Value value) {
  return op.by_onnx(type, {Operand{value, {}, 0}}).front();
}

// exp(x) - 1 and log(1 + x) without cancellation: the error of u = exp(x), rounded, is that of log(u) (W. Kahan).
Value exp_minus_one(Op& op, Value x) {
  Value one = op.number(x, 1), u = apply<tx::ExpOp>(op, x), less = sub(op, u, one);
  Value precise = div(op, mul(op, less, x), apply<tx::LogOp>(op, u));
  Value is_plain = op.compare(tx::CompareKind::eq, u, one),
        is_far = op.compare(tx::CompareKind::gt, apply<tx::AbsOp>(op, x), op.number(x, 1));
  return op.select(is_plain, x, op.select(is_far, less, precise));
}
Value log_plus_one(Op& op, Value x) {
  Value one = op.number(x, 1), u = add(op, x, one), log = apply<tx::LogOp>(op, u);
  Value precise = div(op, mul(op, log, x), sub(op, u, one));
  Value is_plain = op.compare(tx::CompareKind::eq, u, one), is_far = op.compare(tx::CompareKind::gt, apply<tx::AbsOp>(op, x), one);
  return op.select(is_plain, x, op.select(is_far, log, precise));
}

Value tangent(Op& op, Value x) {
  return div(op, apply<tx::SinOp>(op, x), apply<tx::CosOp>(op, x));
}

// Whether the float has a sign, of zero too.
Value has_sign(Op& op, Value x) {
  Value zero = op.number(x, 0);
  Value is_below = op.compare(tx::CompareKind::lt, x, zero), is_zero = op.compare(tx::CompareKind::eq, x, zero);
  Value of_zero = op.compare(tx::CompareKind::lt, div(op, op.number(x, 1), x), zero);
  return op.select(is_zero, of_zero, is_below);
}

Value arc_tangent(Op& op, Value y, Value x) {
  constexpr double pi = std::numbers::pi;
  Value a = apply<tx::AbsOp>(op, y), b = apply<tx::AbsOp>(op, x), zero = op.number(x, 0), one = op.number(x, 1);
  Value are_equal = op.compare(tx::CompareKind::eq, a, b), is_zero = op.compare(tx::CompareKind::eq, a, zero);
  Value ratio = op.select(is_zero, zero, op.select(are_equal, one, div(op, a, b)));  // infinity / infinity counts as 1, 0 / 0 as 0
  Value is_any_nan = op.compare(tx::CompareKind::ne, add(op, a, b), add(op, a, b));
  Value angle = of_onnx(op, "Atan", op.select(is_any_nan, add(op, a, b), ratio));
  angle = op.select(has_sign(op, x), sub(op, op.number(x, pi), angle), angle);
  return op.select(has_sign(op, y), apply<tx::NegOp>(op, angle), angle);
}

Value cube_root(Op& op, Value x) {
  const Type own = tx::element_of(x);
  Value wide = op.converted(x, op.builder.getF64Type()), a = apply<tx::AbsOp>(op, wide);
  Value root = op.binary<tx::PowOp>(a, op.number(a, 1.0 / 3));
  // One step of Newton's method: of f64, the power is not the nearest number.
  Value square = mul(op, root, root), next = sub(op, root, div(op, sub(op, mul(op, square, root), a), mul(op, square, op.number(a, 3))));
  Value is_finite = op.compare(tx::CompareKind::lt, a, op.number(a, infinity)),
        is_zero = op.compare(tx::CompareKind::eq, a, op.number(a, 0));
  root = op.select(is_finite, op.select(is_zero, wide, next), a);
  root = op.select(op.compare(tx::CompareKind::lt, wide, op.number(a, 0)), apply<tx::NegOp>(op, root), root);
  return op.converted(root, own);
}

Value round_away_from_zero(Op& op, Value x) {
  Value a = apply<tx::AbsOp>(op, x), down = apply<tx::FloorOp>(op, a);
  Value up = op.compare(tx::CompareKind::ge, sub(op, a, down), op.number(x, 0.5));
  Value rounded = op.select(up, add(op, down, op.number(x, 1)), down);
  Value is_whole = op.compare(tx::CompareKind::ge, a, op.number(x, 0x1p52));  // infinity minus infinity is not 0
  rounded = op.select(is_whole, a, rounded);
  return op.select(has_sign(op, x), apply<tx::NegOp>(op, rounded), rounded);
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
  return apply<OpT>(op, x);
}

template <typename OpT>
void plain_float(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  op.set_result(apply<OpT>(op, x));
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
  Value size = apply<tx::ExpOp>(op, a.re);
  // Where the imaginary part is 0, so is the result's, also if the size is infinite.
  Value is_real = op.compare(tx::CompareKind::eq, a.im, op.number(a.im, 0));
  return {op.select(is_real, size, mul(op, size, apply<tx::CosOp>(op, a.im))),
          op.select(is_real, a.im, mul(op, size, apply<tx::SinOp>(op, a.im)))};
}
Complex logarithm_of(Op& op, Complex a) {
  return {apply<tx::LogOp>(op, magnitude(op, a)), arc_tangent(op, a.im, a.re)};
}
// (cosh a + cos b) and so on, from exp(x) and exp(-x).
std::pair<Value, Value> hyperbolic(Op& op, Value x) {  // cosh, sinh
  Value up = apply<tx::ExpOp>(op, x), down = apply<tx::ExpOp>(op, apply<tx::NegOp>(op, x)), half = op.number(x, 0.5);
  Value more = exp_minus_one(op, x);
  // sinh = (m + m / (m + 1)) / 2 with m = exp(x) - 1, without cancellation
  Value precise = mul(op, half, add(op, more, div(op, more, add(op, more, op.number(x, 1)))));
  Value is_small = op.compare(tx::CompareKind::lt, apply<tx::AbsOp>(op, x), op.number(x, 1));
  return {mul(op, half, add(op, up, down)), op.select(is_small, precise, mul(op, half, sub(op, up, down)))};
}
Complex square_root_of(Op& op, Complex a) {
  Value size = magnitude(op, a), half = op.number(size, 0.5), zero = op.number(size, 0);
  Value main = apply<tx::SqrtOp>(op, mul(op, half, add(op, size, apply<tx::AbsOp>(op, a.re))));
  Value other = div(op, mul(op, half, apply<tx::AbsOp>(op, a.im)), main);
  Value is_zero = op.compare(tx::CompareKind::eq, main, zero);
  other = op.select(is_zero, zero, other);
  Value is_right = op.compare(tx::CompareKind::ge, a.re, zero);
  Value im = op.select(is_right, other, main);
  return {op.select(is_right, main, other), op.select(has_sign(op, a.im), apply<tx::NegOp>(op, im), im)};
}
Complex tanh_of(Op& op, Complex a) {
  // (tanh x + i tan y) / (1 + i tanh x tan y)
  Value t = apply<tx::TanhOp>(op, a.re), u = tangent(op, a.im);
  return divide(op, {t, u}, {op.number(t, 1), mul(op, t, u)});
}
Complex sine_of(Op& op, Complex a) {
  auto [cosh, sinh] = hyperbolic(op, a.im);
  return {mul(op, apply<tx::SinOp>(op, a.re), cosh), mul(op, apply<tx::CosOp>(op, a.re), sinh)};
}
Complex cosine_of(Op& op, Complex a) {
  auto [cosh, sinh] = hyperbolic(op, a.im);
  return {mul(op, apply<tx::CosOp>(op, a.re), cosh), apply<tx::NegOp>(op, mul(op, apply<tx::SinOp>(op, a.re), sinh))};
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
  Value half = apply<tx::SinOp>(op, mul(op, a.im, op.number(a.im, 0.5)));
  Value less = mul(op, op.number(half, -2), mul(op, half, half));
  Value re = add(op, mul(op, exp_minus_one(op, a.re), apply<tx::CosOp>(op, a.im)), less);
  return {re, mul(op, apply<tx::ExpOp>(op, a.re), apply<tx::SinOp>(op, a.im))};
}
Complex log_plus_one_of(Op& op, Complex a) {
  Value one = op.number(a.re, 1), right = add(op, a.re, one);
  // |1 + a|^2 = 1 + (2 x + x^2 + y^2)
  Value small = add(op, mul(op, a.re, add(op, a.re, op.number(a.re, 2))), mul(op, a.im, a.im));
  Value near = mul(op, op.number(small, 0.5), log_plus_one(op, small));
  Value is_near = op.compare(tx::CompareKind::lt, apply<tx::AbsOp>(op, small), op.number(small, 0.5));
  Complex far = logarithm_of(op, {right, a.im});
  return {op.select(is_near, near, far.re), far.im};
}
Complex logistic_of(Op& op, Complex a) {
  Complex power = exponential_of(op, {apply<tx::NegOp>(op, a.re), apply<tx::NegOp>(op, a.im)});
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
    return set_complex(op, {apply<tx::NegOp>(op, a.re), apply<tx::NegOp>(op, a.im)});
  }
  Value x = input(op, 0);
  if (is_bool(x)) op.fail("bools have no negative");
  op.set_result(is_float(x) ? apply<tx::NegOp>(op, x) : sub(op, op.number(x, 0), x));
}

void absolute(Op& op) {
  op.expect(1);
  if (is_complex(op, 0)) return op.set_result(magnitude(op, complex_input(op, 0)));
  Value x = input(op, 0);
  op.set_result(apply<tx::AbsOp>(op, x));
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
  if (op.input_count() == 2 && (is_complex(op, 0) || is_complex(op, 1))) op.unsupported("it is not supported for complex numbers");
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

// ------------------------------------------------------------------------------------------------------------- bits

template <Combine of_bools, typename OpT>
void bitwise(Op& op) {
  auto [a, b] = like_pair(op);
  need_integers(op, a);
  op.set_result(is_bool(a) ? combined(op, of_bools, a, b) : op.binary<OpT>(a, b));
}

void invert(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_integers(op, x);
  if (is_bool(x)) return op.set_result(op.compare(tx::CompareKind::eq, x, op.number(x, 0)));
  op.set_result(sub(op, sub(op, op.number(x, 0), x), op.number(x, 1)));
}

Value as_unsigned(Op& op, Value x) {
  return op.converted(x, op.builder.getIntegerType(tx::element_of(x).getIntOrFloatBitWidth(), false));
}
Value ones(Op& op, Value x) {  // all bits, of integers without a sign
  return sub(op, op.number(x, 0), op.number(x, 1));
}

Value power_of_two(Op& op, Value like, int64_t exponent) {
  return op.number(like, std::ldexp(1.0, static_cast<int>(exponent)));
}

// Of integers without a sign, by a number known when the program is compiled.
Value shifted_right(Op& op, Value x, int64_t distance) {
  if (distance == 0) return x;
  if (distance >= static_cast<int64_t>(tx::element_of(x).getIntOrFloatBitWidth())) return op.number(x, 0);
  const int64_t first = std::min<int64_t>(distance, 32);
  Value result = div(op, x, power_of_two(op, x, first));
  return distance > first ? div(op, result, power_of_two(op, x, distance - first)) : result;
}
Value shifted_left(Op& op, Value x, int64_t distance) {
  if (distance == 0) return x;
  if (distance >= static_cast<int64_t>(tx::element_of(x).getIntOrFloatBitWidth())) return op.number(x, 0);
  const int64_t first = std::min<int64_t>(distance, 32);
  Value result = mul(op, x, power_of_two(op, x, first));
  return distance > first ? mul(op, result, power_of_two(op, x, distance - first)) : result;
}

std::optional<int64_t> known_distance(Value distance) {
  auto constant = distance.getDefiningOp<tx::ConstantOp>();
  auto splat = constant ? llvm::dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (!splat) return {};
  const APInt value = splat.getSplatValue<APInt>();
  return value.ult(64) ? static_cast<int64_t>(value.getZExtValue()) : 64;
}

// By 32, 16, 8, 4, 2 and 1, each if the distance has that bit. As many bits as the type has, or more, leave 0.
Value shifted(Op& op, Value x, Value distance, bool left) {
  if (auto known = known_distance(distance)) return left ? shifted_left(op, x, *known) : shifted_right(op, x, *known);
  const auto width = static_cast<int64_t>(tx::element_of(x).getIntOrFloatBitWidth());
  Value is_beyond = op.compare(tx::CompareKind::ge, distance, op.number(x, static_cast<double>(width)));
  for (int64_t bits = width / 2; bits >= 1; bits /= 2) {
    Value bound = op.number(x, static_cast<double>(bits)), has_bit = op.compare(tx::CompareKind::ge, distance, bound);
    x = op.select(has_bit, left ? shifted_left(op, x, bits) : shifted_right(op, x, bits), x);
    distance = op.select(has_bit, sub(op, distance, bound), distance);
  }
  return op.select(is_beyond, op.number(x, 0), x);
}

enum class Shift { left, logical, arithmetic };

template <Shift kind>
void shift(Op& op) {
  auto [a, b] = like_pair(op);
  need_integers(op, a);
  if (is_bool(a)) op.fail("bools are not shifted");
  const Type own = tx::element_of(a);
  Value x = as_unsigned(op, a), distance = as_unsigned(op, b);
  Value result;
  if (kind == Shift::arithmetic && !own.isUnsignedInteger()) {
    Value is_negative = op.compare(tx::CompareKind::lt, a, op.number(a, 0)), all = ones(op, x);
    result = shifted(op, op.select(is_negative, sub(op, all, x), x), distance, /*left=*/false);
    result = op.select(is_negative, sub(op, all, result), result);
  } else {
    result = shifted(op, x, distance, kind == Shift::left);
  }
  op.set_result(op.converted(result, own));
}

// How many bits are 1: sums of pairs, of fours, and so on.
Value bit_count(Op& op, Value x) {
  const auto width = static_cast<int64_t>(tx::element_of(x).getIntOrFloatBitWidth());
  for (int64_t bits = 1; bits < width; bits *= 2) {
    const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    const uint64_t mask = all / ((uint64_t{1} << bits) + 1);  // bits times 1, bits times 0, ..
    RankedTensorType type = Op::type_of(x);
    Value masks = op.make<tx::ConstantOp>(
        RankedTensorType::get({}, type.getElementType()),
        DenseElementsAttr::get(RankedTensorType::get({}, type.getElementType()), APInt(static_cast<unsigned>(width), mask)));
    masks = op.broadcast(masks, tx::extents(type), {});
    x = add(op, op.binary<tx::BitAndOp>(x, masks), op.binary<tx::BitAndOp>(shifted_right(op, x, bits), masks));
  }
  return x;
}

void population_count(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_integers(op, x);
  if (is_bool(x)) return op.set_result(x);
  op.set_result(op.converted(bit_count(op, as_unsigned(op, x)), tx::element_of(x)));
}

void count_leading_zeros(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_integers(op, x);
  const Type own = tx::element_of(x);
  if (is_bool(x)) return op.set_result(op.compare(tx::CompareKind::eq, x, op.number(x, 0)));
  Value bits = as_unsigned(op, x);
  const auto width = static_cast<int64_t>(own.getIntOrFloatBitWidth());
  for (int64_t distance = 1; distance < width; distance *= 2) bits = op.binary<tx::BitOrOp>(bits, shifted_right(op, bits, distance));
  Value count = sub(op, op.number(bits, static_cast<double>(width)), bit_count(op, bits));
  op.set_result(op.converted(count, own));
}

// The bits of elements, as integers without a sign.
Value bits_of(Op& op, Value x) {
  const Type own = tx::element_of(x);
  if (const tx::NarrowFormat* narrow = tx::narrow_format(own)) {
    if (narrow->bits() != 8) op.unsupported("the bits of elements of less than 8 bits are not supported");
    return op.make<tx::StoredOp>(tx::with_element_type(Op::type_of(x), tx::stored_type(*narrow, op.builder.getContext())), x);
  }
  const Type integer = op.builder.getIntegerType(own.getIntOrFloatBitWidth(), false);
  if (llvm::isa<IntegerType>(own)) return op.converted(x, integer);
  return op.make<tx::BitCastOp>(tx::with_element_type(Op::type_of(x), integer), x);
}
Value from_bits(Op& op, Value bits, Type element) {
  if (tx::narrow_format(element)) return op.make<tx::StoredOp>(tx::with_element_type(Op::type_of(bits), element), bits);
  if (llvm::isa<IntegerType>(element)) return op.converted(bits, element);
  return op.make<tx::BitCastOp>(tx::with_element_type(Op::type_of(bits), element), bits);
}
int64_t bit_width(Type element) {
  if (const tx::NarrowFormat* narrow = tx::narrow_format(element)) return narrow->bits();
  return element.getIntOrFloatBitWidth();
}

// The bits of integers and floats in the low bits of integers without a sign, and back: elements of less than 8 bits are in bytes.
Value low_bits(Op& op, Value x) {
  const Type byte = op.builder.getIntegerType(8, false);
  if (is_bool(x)) return op.converted(x, byte);
  const tx::NarrowFormat* narrow = tx::narrow_format(tx::element_of(x));
  if (!narrow) return bits_of(op, x);
  Value stored = op.make<tx::StoredOp>(tx::with_element_type(Op::type_of(x), tx::stored_type(*narrow, op.builder.getContext())), x);
  stored = op.converted(stored, byte);
  return narrow->bits() == 8 ? stored : op.binary<tx::BitAndOp>(stored, op.number(stored, static_cast<double>((1 << narrow->bits()) - 1)));
}
Value from_low_bits(Op& op, Value bits, Type element) {
  if (element.isInteger(1)) return op.compare(tx::CompareKind::ne, bits, op.number(bits, 0));
  const tx::NarrowFormat* narrow = tx::narrow_format(element);
  if (!narrow) return from_bits(op, bits, element);
  if (narrow->bits() == 8) return from_bits(op, bits, element);
  // Of integers with a sign, the bytes have the number: its highest bit counts below 0.
  if (!narrow->is_unsigned()) {
    Value sign = op.number(bits, static_cast<double>(1 << (narrow->bits() - 1)));
    bits = op.converted(sub(op, op.binary<tx::BitXorOp>(bits, sign), sign), op.builder.getIntegerType(8));
  }
  return op.make<tx::StoredOp>(tx::with_element_type(Op::type_of(bits), element), bits);
}

// Elements of another size have a last dimension more or less, lowest bits first.
void bitcast_convert(Op& op) {
  op.expect(1);
  if (op.source().getOperand(0).getType() == op.source().getResult(0).getType()) return op.set_data(op.data(0));
  if (is_complex(op, 0) || llvm::isa<ComplexType>(getElementTypeOrSelf(op.source().getResult(0).getType())))
    op.unsupported("the bits of complex numbers as others are not supported");
  Value x = op.input(0);
  const Type to = op.result_element(), from = tx::element_of(x);
  const int64_t have = from.isInteger(1) ? 1 : bit_width(from), want = to.isInteger(1) ? 1 : bit_width(to);
  Value bits = low_bits(op, x);
  if (have == want) return op.set_result(from == to ? x : from_low_bits(op, bits, to));
  auto integer = [&](int64_t width) { return op.builder.getIntegerType(static_cast<unsigned>(std::max<int64_t>(width, 8)), false); };
  const Type part = integer(std::min(have, want)), whole = integer(std::max(have, want));
  const int64_t count = std::max(have, want) / std::min(have, want);
  if (have > want) {
    Extents extents = Op::extents_of(bits);
    extents.push_back(op.builder.getAffineConstantExpr(1));
    SmallVector<Value> parts;
    for (int64_t i = 0; i < count; ++i) {
      Value one = op.converted(shifted_right(op, bits, i * want), part);
      if (want < 8) one = op.binary<tx::BitAndOp>(one, op.number(one, static_cast<double>((1 << want) - 1)));
      parts.push_back(op.reshape(one, extents));
    }
    return op.set_result(from_low_bits(op, op.concat(parts, static_cast<int64_t>(extents.size()) - 1), to));
  }
  const int64_t last = Op::rank_of(bits) - 1;
  if (last < 0 || op.extent(bits, last) != count)
    op.fail("the last dimension of its operand has to have an extent of " + std::to_string(count));
  Value result;
  for (int64_t i = 0; i < count; ++i) {
    Value one = op.slice(bits, last, i, i + 1);
    Extents extents = Op::extents_of(one);
    extents.pop_back();
    one = shifted_left(op, op.converted(op.reshape(one, extents), whole), i * have);
    result = result ? op.binary<tx::BitOrOp>(result, one) : one;
  }
  op.set_result(from_low_bits(op, result, to));
}

// Rounds to fewer bits of the mantissa and to a smaller exponent, on the bits: what is too large is infinity, what is subnormal then is 0.
void reduce_precision(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  const Type own = tx::element_of(x);
  x = computing(op, x);
  const bool is_wide = tx::element_of(x).isF64();
  const int64_t mantissa = is_wide ? 52 : 23, exponent = is_wide ? 11 : 8;
  const int64_t to_exponent = op.integer("exponent_bits"), to_mantissa = op.integer("mantissa_bits");
  if (to_exponent < 1 || to_mantissa < 0) op.fail("exponent_bits has to be 1 or more, and mantissa_bits 0 or more");
  Value result = x;
  if (to_mantissa < mantissa) {
    Value bits = bits_of(op, x);
    const int64_t dropped = mantissa - to_mantissa;
    Value one = op.number(bits, 1), last = op.binary<tx::BitAndOp>(shifted_right(op, bits, dropped), one);
    Value half = sub(op, power_of_two(op, bits, dropped - 1), one);
    Value rounded = add(op, bits, add(op, half, last));
    result = from_bits(op, shifted_left(op, shifted_right(op, rounded, dropped), dropped), tx::element_of(x));
  }
  if (to_exponent < exponent) {
    const int64_t bias = (int64_t{1} << (to_exponent - 1)) - 1;
    const double largest =
        (2 - std::ldexp(1.0, static_cast<int>(-std::min(to_mantissa, mantissa)))) * std::ldexp(1.0, static_cast<int>(bias));
    const double smallest = std::ldexp(1.0, static_cast<int>(1 - bias));
    Value size = apply<tx::AbsOp>(op, result), sign = has_sign(op, result);
    Value beyond = op.select(sign, op.number(result, -infinity), op.number(result, infinity));
    Value zero = op.select(sign, op.number(result, -0.0), op.number(result, 0.0));
    result = op.select(op.compare(tx::CompareKind::gt, size, op.number(size, largest)), beyond, result);
    result = op.select(op.compare(tx::CompareKind::lt, size, op.number(size, smallest)), zero, result);
  }
  result = op.select(op.compare(tx::CompareKind::ne, x, x), x, result);
  op.set_result(op.converted(result, own));
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
  set_complex(op, {a.re, apply<tx::NegOp>(op, a.im)});
}

void is_finite(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  op.set_result(op.compare(tx::CompareKind::lt, apply<tx::AbsOp>(op, x), op.number(x, infinity)));
}
void is_infinite(Op& op) {
  op.expect(1);
  Value x = input(op, 0);
  need_floats(op, x);
  op.set_result(op.compare(tx::CompareKind::eq, apply<tx::AbsOp>(op, x), op.number(x, infinity)));
}

Value square(Op& op, Value x) {
  return mul(op, x, x);
}
Complex square_of(Op& op, Complex a) {
  return multiply(op, a, a);
}
Value complement_of_erf(Op& op, Value x) {
  return sub(op, op.number(x, 1), apply<tx::ErfOp>(op, x));
}
Value sinh_of(Op& op, Value x) {
  return hyperbolic(op, x).second;
}
Value cosh_of(Op& op, Value x) {
  return hyperbolic(op, x).first;
}
Complex complex_cosh_of(Op& op, Complex a) {  // cos(i a)
  return cosine_of(op, {apply<tx::NegOp>(op, a.im), a.re});
}

}  // namespace

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
      {"stablehlo.and", {bitwise<Combine::land, tx::BitAndOp>, kEach}},
      {"stablehlo.atan2", {atan2, kEach | kComplex}},
      {"stablehlo.bitcast_convert", {bitcast_convert, kNarrow | kComplex}},
      {"stablehlo.cbrt", {either<cube_root, cube_root_of>, kEach | kComplex}},
      {"stablehlo.ceil", {plain_float<tx::CeilOp>, kEach}},
      {"stablehlo.clamp", {clamp, kEach}},
      {"stablehlo.compare", {compare, kEach | kComplex}},
      {"stablehlo.complex", {make_complex, kEach | kComplex}},
      {"stablehlo.convert", {convert, kEach | kComplex | kNarrow}},
      {"stablehlo.cosine", {either<tx_function<tx::CosOp>, cosine_of>, kEach | kComplex}},
      {"stablehlo.count_leading_zeros", {count_leading_zeros, kEach}},
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
      {"stablehlo.not", {invert, kEach}},
      {"stablehlo.or", {bitwise<Combine::lor, tx::BitOrOp>, kEach}},
      {"stablehlo.popcnt", {population_count, kEach}},
      {"stablehlo.power", {power, kEach | kComplex}},
      {"stablehlo.real", {real_part, kEach | kComplex}},
      {"stablehlo.reduce_precision", {reduce_precision, kEach}},
      {"stablehlo.remainder", {remainder, kEach}},
      {"stablehlo.round_nearest_afz", {float_function<round_away_from_zero>, kEach}},
      {"stablehlo.round_nearest_even", {plain_float<tx::RoundOp>, kEach}},
      {"stablehlo.rsqrt", {either<tx_function<tx::RsqrtOp>, rsqrt_of>, kEach | kComplex}},
      {"stablehlo.select", {select, kEach | kComplex | kNarrow}},
      {"stablehlo.shift_left", {shift<Shift::left>, kEach}},
      {"stablehlo.shift_right_arithmetic", {shift<Shift::arithmetic>, kEach}},
      {"stablehlo.shift_right_logical", {shift<Shift::logical>, kEach}},
      {"stablehlo.sign", {sign, kEach | kComplex}},
      {"stablehlo.sine", {either<tx_function<tx::SinOp>, sine_of>, kEach | kComplex}},
      {"stablehlo.sqrt", {either<tx_function<tx::SqrtOp>, square_root_of>, kEach | kComplex}},
      {"stablehlo.subtract", {arithmetic<tx::SubOp>, kEach | kComplex}},
      {"stablehlo.tan", {either<tangent, tangent_of>, kEach | kComplex}},
      {"stablehlo.tanh", {either<tx_function<tx::TanhOp>, tanh_of>, kEach | kComplex}},
      {"stablehlo.xor", {bitwise<Combine::lxor, tx::BitXorOp>, kEach}},
  };
  return table;
}

}  // namespace heddle::import::stablehlo
