// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies of element-wise ops. Series are Taylor's (exp, tanh near 0, erf below 1) and the area tangent's (log), so that one
// text serves f32 and f64 with a number of terms each; largest errors are held by the tests.
#include "compiler/targets/scalar_body.h"

#include <cmath>
#include <numbers>

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::targets {

namespace {

// Short names for ops on values of one shape.
class Body {
 public:
  Body(OpBuilder& builder, Location location, Type type) : builder_(builder), location_(location), type_(type) {}

  Type type() const { return type_; }
  bool is_double() const { return getElementTypeOrSelf(type_).isF64(); }
  bool is_float() const { return llvm::isa<FloatType>(getElementTypeOrSelf(type_)); }

  Type like(Type element) const {
    if (auto vector = llvm::dyn_cast<VectorType>(type_)) return vector.clone(element);
    return element;
  }
  Type integer() const { return like(builder_.getIntegerType(is_double() ? 64 : 32)); }

  Value constant(double value, Type type = {}) {
    if (!type) type = type_;
    Type element = getElementTypeOrSelf(type);
    TypedAttr scalar;
    if (auto float_type = llvm::dyn_cast<FloatType>(element)) {
      scalar = builder_.getFloatAttr(float_type, value);
    } else {
      scalar = builder_.getIntegerAttr(element, static_cast<int64_t>(value));
    }
    if (auto vector = llvm::dyn_cast<VectorType>(type)) scalar = SplatElementsAttr::get(vector, scalar);
    return builder_.create<arith::ConstantOp>(location_, scalar);
  }

  template <typename OpType, typename... Args>
  Value make(Args&&... args) {
    return builder_.createOrFold<OpType>(location_, std::forward<Args>(args)...);
  }
  Value add(Value a, Value b) { return make<arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) { return make<arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) { return make<arith::MulFOp>(a, b); }
  Value div(Value a, Value b) { return make<arith::DivFOp>(a, b); }
  Value fma(Value a, Value b, Value c) { return make<math::FmaOp>(a, b, c); }
  Value sqrt(Value a) { return make<math::SqrtOp>(a); }
  Value abs(Value a) { return make<math::AbsFOp>(a); }
  Value compare(arith::CmpFPredicate predicate, Value a, Value b) { return make<arith::CmpFOp>(predicate, a, b); }
  Value select(Value condition, Value a, Value b) { return make<arith::SelectOp>(condition, a, b); }
  Value bits(Value a) { return make<arith::BitcastOp>(integer(), a); }
  Value from_bits(Value a) { return make<arith::BitcastOp>(type_, a); }

  // Horner's scheme, coefficients from the constant one up.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) result = fma(result, x, constant(coefficient));
    return result;
  }

  Value exp(Value x);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sigmoid(Value x) { return div(constant(1), add(constant(1), exp(sub(constant(0), x)))); }

 private:
  OpBuilder& builder_;
  Location location_;
  Type type_;
};

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. 2^n is applied as two factors, so that results reach down to the
// denormal numbers and up to the largest.
Value Body::exp(Value x) {
  bool wide = is_double();
  Value low = constant(wide ? -746 : -104), high = constant(wide ? 710 : 89);
  Value clamped = select(compare(arith::CmpFPredicate::OLT, x, low), low, x);
  clamped = select(compare(arith::CmpFPredicate::OGT, clamped, high), high, clamped);
  Value n = make<math::RoundEvenOp>(mul(clamped, constant(std::numbers::log2e)));
  // ln 2 in two parts; n * part 1 is exact.
  double part1 = wide ? 0x1.62e42feep-1 : 0x1.62e4p-1;
  Value r = fma(n, constant(-part1), clamped);
  r = fma(n, constant(-(wide ? 0x1.a39ef35793c76p-33 : std::numbers::ln2 - 0x1.62e4p-1)), r);
  SmallVector<double> series;
  double factorial = 1;
  for (int k = 0; k <= (wide ? 13 : 7); ++k) {
    if (k > 0) factorial *= k;
    series.push_back(1 / factorial);
  }
  Value p = polynomial(r, series);
  Value exponent = make<arith::FPToSIOp>(integer(), n);
  Value half = make<arith::ShRSIOp>(exponent, constant(1, integer()));
  Value rest = make<arith::SubIOp>(exponent, half);
  auto power_of_two = [&](Value k) {
    Value biased = make<arith::AddIOp>(k, constant(wide ? 1023 : 127, integer()));
    return from_bits(make<arith::ShLIOp>(biased, constant(wide ? 52 : 23, integer())));
  };
  Value result = mul(mul(p, power_of_two(half)), power_of_two(rest));
  return select(compare(arith::CmpFPredicate::UNO, x, x), x, result);
}

// log(x) = n ln 2 + 2 artanh(s), s = (m - 1) / (m + 1), x = 2^n m with sqrt(1/2) <= m < sqrt(2).
Value Body::log(Value x) {
  bool wide = is_double();
  int mantissa_bits = wide ? 52 : 23;
  double smallest = wide ? 0x1p-1022 : 0x1p-126, scale = wide ? 0x1p54 : 0x1p25;
  Value tiny = compare(arith::CmpFPredicate::OLT, x, constant(smallest));
  Value scaled = select(tiny, mul(x, constant(scale)), x);
  Value raw = bits(scaled);
  // Subtracting the bits of sqrt(1/2) puts the split between m and n at that mantissa.
  int64_t root_half = wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  auto integer_constant = [&](int64_t value) -> Value {
    Type element = getElementTypeOrSelf(integer());
    TypedAttr scalar = builder_.getIntegerAttr(element, value);
    if (auto vector = llvm::dyn_cast<VectorType>(integer())) scalar = SplatElementsAttr::get(vector, scalar);
    return builder_.create<arith::ConstantOp>(location_, scalar);
  };
  Value shifted = make<arith::SubIOp>(raw, integer_constant(root_half));
  Value n_integer = make<arith::ShRSIOp>(shifted, integer_constant(mantissa_bits));
  Value m = from_bits(make<arith::SubIOp>(raw, make<arith::ShLIOp>(n_integer, integer_constant(mantissa_bits))));
  Value n = make<arith::SIToFPOp>(type_, n_integer);
  n = select(tiny, sub(n, constant(wide ? 54 : 25)), n);
  Value f = sub(m, constant(1));
  Value s = div(f, add(m, constant(1)));
  Value z = mul(s, s);
  SmallVector<double> series;
  for (int k = 1; k <= (wide ? 11 : 5); ++k) series.push_back(2.0 / (2 * k + 1));
  Value tail = mul(mul(s, z), polynomial(z, series));
  double part1 = wide ? 0x1.62e42feep-1 : 0x1.62e4p-1;
  Value result = fma(n, constant(wide ? 0x1.a39ef35793c76p-33 : std::numbers::ln2 - 0x1.62e4p-1), tail);
  result = add(fma(n, constant(part1), add(s, s)), result);
  double infinity = std::numeric_limits<double>::infinity();
  result = select(compare(arith::CmpFPredicate::OEQ, x, constant(infinity)), x, result);
  result = select(compare(arith::CmpFPredicate::OEQ, x, constant(0)), constant(-infinity), result);
  return select(compare(arith::CmpFPredicate::UGE, x, constant(0)), select(compare(arith::CmpFPredicate::UNO, x, x), x, result),
                constant(std::numeric_limits<double>::quiet_NaN()));
}

Value Body::tanh(Value x) {
  // Taylor below 0.25; 1 - 2 / (exp(2 |x|) + 1) above, where nothing cancels.
  static constexpr double series[] = {1.0,
                                      -1.0 / 3,
                                      2.0 / 15,
                                      -17.0 / 315,
                                      62.0 / 2835,
                                      -1382.0 / 155925,
                                      21844.0 / 6081075,
                                      -929569.0 / 638512875,
                                      6404582.0 / 10854718875,
                                      -443861162.0 / 1856156927625};
  Value size = abs(x);
  Value z = mul(x, x);
  Value near = mul(x, polynomial(z, ArrayRef<double>(series).take_front(is_double() ? 10 : 5)));
  Value e = exp(add(size, size));
  Value far = sub(constant(1), div(constant(2), add(e, constant(1))));
  far = make<math::CopySignOp>(far, x);
  return select(compare(arith::CmpFPredicate::OLT, size, constant(0.25)), near, far);
}

// f32 only.
Value Body::erf(Value x) {
  Value size = abs(x);
  SmallVector<double> series;  // below 1: Taylor
  double factorial = 1;
  for (int k = 0; k <= 10; ++k) {
    if (k > 0) factorial *= -k;
    series.push_back(2 / std::sqrt(std::numbers::pi) / (factorial * (2 * k + 1)));
  }
  Value near = mul(x, polynomial(mul(x, x), series));
  // From 0.95 to 4: erf(t) = 1 - exp(-g(t)); g interpolates -log(erfc(t)) at Chebyshev's points, within 4e-7.
  static constexpr double g[] = {0.000627529516, 1.12634826,   0.638525844,     0.103727132,
                                 -0.0227921493,  0.0034781096, -0.000322967797, 1.36041363e-05};
  Value t = select(compare(arith::CmpFPredicate::OGT, size, constant(4)), constant(4), size);
  Value far = sub(constant(1), exp(sub(constant(0), polynomial(t, g))));
  far = make<math::CopySignOp>(far, x);
  return select(compare(arith::CmpFPredicate::OLT, size, constant(1)), near, far);
}

// x^y through f64, so that y log|x| keeps its digits.
Value power(OpBuilder& builder, Location location, Value x, Value y) {
  Body narrow(builder, location, x.getType());
  Body body(builder, location, narrow.like(builder.getF64Type()));
  bool extended = !narrow.is_double();
  Value wide_x = extended ? body.make<arith::ExtFOp>(body.type(), x) : x;
  Value wide_y = extended ? body.make<arith::ExtFOp>(body.type(), y) : y;
  Value size = body.abs(wide_x);
  Value result = body.exp(body.mul(wide_y, body.log(size)));
  Value zero = body.constant(0), one = body.constant(1);
  Value whole = body.compare(arith::CmpFPredicate::OEQ, body.make<math::FloorOp>(wide_y), wide_y);
  Value half = body.mul(wide_y, body.constant(0.5));
  Value even = body.compare(arith::CmpFPredicate::OEQ, body.make<math::FloorOp>(half), half);
  Value negative = body.compare(arith::CmpFPredicate::OLT, wide_x, zero);
  Value signed_result = body.select(even, result, body.sub(zero, result));
  signed_result = body.select(whole, signed_result, body.constant(std::numeric_limits<double>::quiet_NaN()));
  result = body.select(negative, signed_result, result);
  result = body.select(body.compare(arith::CmpFPredicate::OEQ, wide_y, zero), one, result);
  result = body.select(body.compare(arith::CmpFPredicate::OEQ, wide_x, one), one, result);
  return extended ? narrow.make<arith::TruncFOp>(x.getType(), result) : result;
}

Value cast(Body& from, Body& to, Value x, Type source, Type target) {
  Type from_type = getElementTypeOrSelf(x.getType()), to_type = getElementTypeOrSelf(to.type());
  bool from_float = llvm::isa<FloatType>(from_type), to_float = llvm::isa<FloatType>(to_type);
  if (from_float && to_float) {
    if (from_type == to_type) return x;
    return from_type.getIntOrFloatBitWidth() < to_type.getIntOrFloatBitWidth() ? to.make<arith::ExtFOp>(to.type(), x)
                                                                               : to.make<arith::TruncFOp>(to.type(), x);
  }
  if (to_float) return is_unsigned(source) ? to.make<arith::UIToFPOp>(to.type(), x) : to.make<arith::SIToFPOp>(to.type(), x);
  if (to_type.isInteger(1)) {
    if (from_float) return from.compare(arith::CmpFPredicate::UNE, x, from.constant(0));
    return from.make<arith::CmpIOp>(arith::CmpIPredicate::ne, x, from.constant(0));
  }
  if (!from_float) {
    unsigned from_width = from_type.getIntOrFloatBitWidth(), to_width = to_type.getIntOrFloatBitWidth();
    if (from_width == to_width) return x;
    if (from_width > to_width) return to.make<arith::TruncIOp>(to.type(), x);
    return is_unsigned(source) ? to.make<arith::ExtUIOp>(to.type(), x) : to.make<arith::ExtSIOp>(to.type(), x);
  }
  // Saturating: the bounds are kept apart, since the largest integer may not be a float; NaN is 0.
  unsigned width = to_type.getIntOrFloatBitWidth();
  bool without_sign = is_unsigned(target);
  double low = without_sign ? 0 : -std::ldexp(1.0, static_cast<int>(width) - 1);
  double beyond = without_sign ? std::ldexp(1.0, static_cast<int>(width)) : std::ldexp(1.0, static_cast<int>(width) - 1);
  Value low_value = from.constant(low), beyond_value = from.constant(beyond);
  // Conversions go through a type that holds every value inside the bounds.
  Value inside_low = from.compare(arith::CmpFPredicate::OGE, x, low_value);
  Value inside_high = from.compare(arith::CmpFPredicate::OLT, x, beyond_value);
  Value safe = from.select(inside_low, from.select(inside_high, x, from.constant(0)), from.constant(0));
  Value converted;
  if (width < 32) {
    Type i32 = to.like(IntegerType::get(to_type.getContext(), 32));
    converted = to.make<arith::TruncIOp>(to.type(), to.make<arith::FPToSIOp>(i32, safe));
  } else {
    converted = without_sign ? to.make<arith::FPToUIOp>(to.type(), safe) : to.make<arith::FPToSIOp>(to.type(), safe);
  }
  APInt low_bits = without_sign ? APInt::getMinValue(width) : APInt::getSignedMinValue(width);
  APInt high_bits = without_sign ? APInt::getMaxValue(width) : APInt::getSignedMaxValue(width);
  Value low_integer = to.constant(static_cast<double>(0)), high_integer;
  auto exact = [&](const APInt& bits) {
    return to.make<arith::ConstantOp>([&]() -> TypedAttr {
      TypedAttr scalar = IntegerAttr::get(to_type, bits);
      if (auto vector = llvm::dyn_cast<VectorType>(to.type())) return SplatElementsAttr::get(vector, scalar);
      return scalar;
    }());
  };
  low_integer = exact(low_bits);
  high_integer = exact(high_bits);
  Value above = from.compare(arith::CmpFPredicate::OGE, x, beyond_value);
  Value below = from.compare(arith::CmpFPredicate::OLT, x, low_value);
  return to.select(above, high_integer, to.select(below, low_integer, converted));
}

Value compare(Body& body, tx::CompareKind kind, Value a, Value b, bool without_sign) {
  if (body.is_float()) {
    static constexpr arith::CmpFPredicate predicates[] = {arith::CmpFPredicate::OEQ, arith::CmpFPredicate::UNE, arith::CmpFPredicate::OLT,
                                                          arith::CmpFPredicate::OLE, arith::CmpFPredicate::OGT, arith::CmpFPredicate::OGE};
    return body.compare(predicates[static_cast<uint32_t>(kind)], a, b);
  }
  static constexpr arith::CmpIPredicate with_sign[] = {arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,  arith::CmpIPredicate::slt,
                                                       arith::CmpIPredicate::sle, arith::CmpIPredicate::sgt, arith::CmpIPredicate::sge};
  static constexpr arith::CmpIPredicate no_sign[] = {arith::CmpIPredicate::eq,  arith::CmpIPredicate::ne,  arith::CmpIPredicate::ult,
                                                     arith::CmpIPredicate::ule, arith::CmpIPredicate::ugt, arith::CmpIPredicate::uge};
  return body.make<arith::CmpIOp>((without_sign ? no_sign : with_sign)[static_cast<uint32_t>(kind)], a, b);
}

// Integer division of the operands; 0 where it has no answer, so that no input can trap.
Value integer_division(Body& body, Value a, Value b, bool without_sign) {
  Value zero = body.constant(0), one = body.constant(1);
  Value by_zero = body.make<arith::CmpIOp>(arith::CmpIPredicate::eq, b, zero);
  if (without_sign) {
    Value safe = body.select(by_zero, one, b);
    return body.select(by_zero, zero, body.make<arith::DivUIOp>(a, safe));
  }
  Value minus = body.make<arith::CmpIOp>(arith::CmpIPredicate::eq, b, body.constant(-1));  // the smallest number / -1 overflows
  Value safe = body.select(body.make<arith::OrIOp>(by_zero, minus), one, b);
  Value quotient = body.make<arith::DivSIOp>(a, safe);
  quotient = body.select(minus, body.make<arith::SubIOp>(zero, a), quotient);
  return body.select(by_zero, zero, quotient);
}

}  // namespace

bool is_unsigned(Type type) {
  auto integer = llvm::dyn_cast<IntegerType>(getElementTypeOrSelf(type));
  return integer && (integer.isUnsigned() || integer.getWidth() == 1);
}

Type compute_type(Type element) {
  if (element.isF16() || element.isBF16()) return Float32Type::get(element.getContext());
  if (auto integer = llvm::dyn_cast<IntegerType>(element)) return IntegerType::get(element.getContext(), integer.getWidth());
  return element;
}

Value emit_exp(OpBuilder& builder, Location location, Value x) {
  return Body(builder, location, x.getType()).exp(x);
}
Value emit_log(OpBuilder& builder, Location location, Value x) {
  return Body(builder, location, x.getType()).log(x);
}

Value emit_constant_power(OpBuilder& builder, Location location, Value x, double exponent) {
  Body body(builder, location, x.getType());
  double quarters = std::fabs(exponent) * 4;
  if (quarters != std::floor(quarters) || quarters > 12) return power(builder, location, x, body.constant(exponent));
  if (quarters == 0) return body.constant(1);
  int whole = static_cast<int>(quarters) / 4, rest = static_cast<int>(quarters) % 4;
  Value result;
  auto times = [&](Value factor) { result = result ? body.mul(result, factor) : factor; };
  for (int i = 0; i < whole; ++i) times(x);
  if (rest != 0) {
    Value root = body.sqrt(x);
    if (rest >= 2) times(root);
    if (rest % 2 == 1) times(body.sqrt(root));
  }
  return exponent < 0 ? body.div(body.constant(1), result) : result;
}

Value emit_fast_max(OpBuilder& builder, Location location, Value a, Value b, bool without_sign) {
  Body body(builder, location, a.getType());
  if (body.is_float()) return body.select(body.compare(arith::CmpFPredicate::OGT, a, b), a, b);
  return without_sign ? body.make<arith::MaxUIOp>(a, b) : body.make<arith::MaxSIOp>(a, b);
}

Value emit_fast_min(OpBuilder& builder, Location location, Value a, Value b, bool without_sign) {
  Body body(builder, location, a.getType());
  if (body.is_float()) return body.select(body.compare(arith::CmpFPredicate::OLT, a, b), a, b);
  return without_sign ? body.make<arith::MinUIOp>(a, b) : body.make<arith::MinSIOp>(a, b);
}

Value emit_scalar_body(OpBuilder& builder, Location location, Operation* op, ValueRange operands) {
  Value x = operands[0];
  Body body(builder, location, x.getType());
  bool is_float = body.is_float();
  Type element = llvm::cast<RankedTensorType>(op->getOperand(0).getType()).getElementType();
  bool without_sign = is_unsigned(element);
  auto unsupported = [&]() -> Value {
    op->emitError("no code for ") << op->getName() << " on elements of type " << element;
    return {};
  };
  return llvm::TypeSwitch<Operation*, Value>(op)
      .Case([&](tx::NegOp) -> Value { return is_float ? body.make<arith::NegFOp>(x) : body.make<arith::SubIOp>(body.constant(0), x); })
      .Case([&](tx::AbsOp) -> Value {
        if (is_float) return body.abs(x);
        return without_sign ? x : body.make<arith::MaxSIOp>(x, body.make<arith::SubIOp>(body.constant(0), x));
      })
      .Case([&](tx::ReluOp) -> Value {
        Value zero = body.constant(0);
        if (!is_float) return without_sign ? x : body.make<arith::MaxSIOp>(x, zero);
        return body.select(body.compare(arith::CmpFPredicate::OGT, zero, x), zero, x);  // one instruction; NaN stays
      })
      .Case([&](tx::FloorOp) -> Value { return is_float ? body.make<math::FloorOp>(x) : x; })
      .Case([&](tx::CeilOp) -> Value { return is_float ? body.make<math::CeilOp>(x) : x; })
      .Case([&](tx::RoundOp) -> Value { return is_float ? body.make<math::RoundEvenOp>(x) : x; })
      .Case<tx::ExpOp, tx::LogOp, tx::SqrtOp, tx::RsqrtOp, tx::ReciprocalOp, tx::TanhOp, tx::SigmoidOp, tx::ErfOp>(
          [&](Operation* unary) -> Value {
            if (!is_float) return unsupported();
            if (llvm::isa<tx::ExpOp>(unary)) return body.exp(x);
            if (llvm::isa<tx::LogOp>(unary)) return body.log(x);
            if (llvm::isa<tx::SqrtOp>(unary)) return body.sqrt(x);
            if (llvm::isa<tx::RsqrtOp>(unary)) return body.div(body.constant(1), body.sqrt(x));
            if (llvm::isa<tx::ReciprocalOp>(unary)) return body.div(body.constant(1), x);
            if (llvm::isa<tx::TanhOp>(unary)) return body.tanh(x);
            if (llvm::isa<tx::SigmoidOp>(unary)) return body.sigmoid(x);
            return body.is_double() ? unsupported() : body.erf(x);
          })
      .Case([&](tx::AddOp) -> Value { return is_float ? body.add(x, operands[1]) : body.make<arith::AddIOp>(x, operands[1]); })
      .Case([&](tx::SubOp) -> Value { return is_float ? body.sub(x, operands[1]) : body.make<arith::SubIOp>(x, operands[1]); })
      .Case([&](tx::MulOp) -> Value { return is_float ? body.mul(x, operands[1]) : body.make<arith::MulIOp>(x, operands[1]); })
      .Case([&](tx::DivOp) -> Value { return is_float ? body.div(x, operands[1]) : integer_division(body, x, operands[1], without_sign); })
      .Case([&](tx::MaxOp) -> Value {
        if (is_float) return body.make<arith::MaximumFOp>(x, operands[1]);
        return emit_fast_max(builder, location, x, operands[1], without_sign);
      })
      .Case([&](tx::MinOp) -> Value {
        if (is_float) return body.make<arith::MinimumFOp>(x, operands[1]);
        return emit_fast_min(builder, location, x, operands[1], without_sign);
      })
      .Case([&](tx::PowOp pow) -> Value {
        if (!is_float) return unsupported();
        if (auto exponent = pow.getRhs().getDefiningOp<tx::ConstantOp>()) {
          if (auto splat = llvm::dyn_cast<SplatElementsAttr>(exponent.getValue())) {
            APFloat value = splat.getSplatValue<APFloat>();
            bool lost;
            value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
            double y = value.convertToDouble();
            // Roots differ from pow for -0 and -infinity; whole exponents do not.
            if (y == std::floor(y) || y == 0.5) return emit_constant_power(builder, location, x, y);
          }
        }
        return power(builder, location, x, operands[1]);
      })
      .Case([&](tx::CompareOp compare_op) -> Value { return compare(body, compare_op.getKind(), x, operands[1], without_sign); })
      .Case([&](tx::SelectOp) -> Value { return body.make<arith::SelectOp>(x, operands[1], operands[2]); })
      .Case([&](tx::CastOp) -> Value {
        Type target = llvm::cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
        Body to(builder, location, body.like(compute_type(target)));
        return cast(body, to, x, element, target);
      })
      .Default([&](Operation*) -> Value { return unsupported(); });
}

}  // namespace heddle::targets
