// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See single_precision.h. Series are Taylor's. A Pair is the sum of two f32, the second of which is about the rounding error of the first.
#include "compiler/targets/single_precision.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/stage/value_builder.h"

using namespace mlir;

namespace heddle::targets {

namespace {

struct Pair {
  Value high, low;
};

class SingleBody : public stage::ValueBuilder {
 public:
  SingleBody(OpBuilder& builder, Location location, Type type)
      : ValueBuilder(builder, location, type), i32_(like(builder.getI32Type())), i64_(like(builder.getI64Type())) {}

  Value fma(Value a, Value b, Value c) { return make<math::FmaOp>(a, b, c); }
  Value bits(Value a) { return make<arith::BitcastOp>(i32_, a); }
  Value from_bits(Value a) { return make<arith::BitcastOp>(type_, a); }
  Value negate(Value a) { return make<arith::NegFOp>(a); }
  Value is(arith::CmpFPredicate predicate, Value a, double b) { return compare(predicate, a, constant(b)); }
  Value both(Value a, Value b) { return make<arith::AndIOp>(a, b); }

  // All 64 bits; constant() is exact up to 2^53 only.
  Value integer(uint64_t value, Type type) {
    Type element = getElementTypeOrSelf(type);
    TypedAttr scalar = builder_.getIntegerAttr(element, APInt(element.getIntOrFloatBitWidth(), value));
    if (auto vector = llvm::dyn_cast<VectorType>(type)) scalar = SplatElementsAttr::get(vector, scalar);
    return builder_.create<arith::ConstantOp>(location_, scalar);
  }
  Value i32(uint32_t value) { return integer(value, i32_); }
  Value i64(uint64_t value) { return integer(value, i64_); }
  Value equals(Value a, Value b) { return make<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b); }

  // Horner's scheme; coefficients start with the constant one.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) result = fma(result, x, constant(coefficient));
    return result;
  }

  // a * factor, without the product of the two low parts.
  Pair times(Pair a, double factor) {
    const float high = static_cast<float>(factor);
    Value product = mul(a.high, constant(high));
    Value error = fma(a.high, constant(high), negate(product));
    error = fma(a.high, constant(factor - static_cast<double>(high)), error);
    return {product, fma(a.low, constant(high), error)};
  }

  Value sine_or_cosine(Value x, bool is_cosine);
  Value power(Value x, Value y);

 private:
  struct Turned {
    Pair rest;      // from -pi / 4 to pi / 4, and a little beyond
    Value quarter;  // i32, counted modulo 4
  };
  Turned reduce(Value size);
  Pair log2(Value size);
  Value exp2(Pair t);

  Type i32_, i64_;
};

// size = rest + quarter * pi / 2, modulo 2 pi. size = M * 2^E with a whole M below 2^24, so only those bits of 2 / pi matter that are not whole
// multiples of 4 after a shift by E. 96 of them, as three numbers of 32 bits, times M give the quarter in 2 bits and what is left in 62 (Payne and
// Hanek, 1983). 2^-29.9 of a quarter is the least rest of any f32, so 32 bits of it are right.
SingleBody::Turned SingleBody::reduce(Value size) {
  // The binary digits of 2 / pi behind the point, after 32 zeros.
  static constexpr uint64_t digits[] = {0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  constexpr int windows = 5;  // that a number may start in: digits[0] for 0.5, digits[4] for the largest f32
  Value raw = bits(size);
  Value mantissa = make<arith::ExtUIOp>(i64_, make<arith::OrIOp>(make<arith::AndIOp>(raw, i32(0x7fffff)), i32(0x800000)));
  Value exponent = make<arith::ShRUIOp>(raw, i32(23));
  // The first digit that is needed: at least 6, and at most 134, where the small ones that are not reduced do not count.
  Value first = make<arith::SubIOp>(exponent, i32(120));
  Value word = make<arith::ShRSIOp>(first, i32(5));
  Value shift = make<arith::ExtUIOp>(i64_, make<arith::AndIOp>(first, i32(31)));
  auto digits_from = [&](int start) {  // 32 of them, from the word `start` behind the first
    auto two_words = [&](int at) { return i64(digits[at] << 32 | digits[at + 1]); };
    Value two = two_words(start);
    for (int k = 1; k < windows; ++k) two = select(equals(word, i32(static_cast<uint32_t>(k))), two_words(start + k), two);
    return make<arith::ShRUIOp>(make<arith::ShLIOp>(two, shift), i64(32));
  };
  auto times_mantissa = [&](Value a) { return make<arith::MulIOp>(mantissa, a); };
  // In units of 2^-62 quarters; whole turns are lost at the top.
  Value turned = make<arith::ShLIOp>(times_mantissa(digits_from(0)), i64(32));
  turned = make<arith::AddIOp>(turned, times_mantissa(digits_from(1)));
  turned = make<arith::AddIOp>(turned, make<arith::ShRUIOp>(times_mantissa(digits_from(2)), i64(32)));
  Value quarter = make<arith::ShRUIOp>(make<arith::AddIOp>(turned, i64(uint64_t{1} << 61)), i64(62));
  Value part = make<arith::SubIOp>(turned, make<arith::ShLIOp>(quarter, i64(62)));
  Value high = make<arith::SIToFPOp>(type_, part);
  Value low = make<arith::SIToFPOp>(type_, make<arith::SubIOp>(part, make<arith::FPToSIOp>(i64_, high)));
  Pair rest = times({high, low}, std::numbers::pi / 2 * 0x1p-62);
  Value is_small = is(arith::CmpFPredicate::OLT, size, 0.785);
  return {{select(is_small, size, rest.high), select(is_small, constant(0), rest.low)},
          select(is_small, i32(0), make<arith::TruncIOp>(i32_, quarter))};
}

Value SingleBody::sine_or_cosine(Value x, bool is_cosine) {
  Value size = abs(x);
  auto [rest, quarter] = reduce(size);
  auto [r, low] = rest;
  Value square = mul(r, r);
  // r + low - r^3 / 6 ...
  Value sine = add(r, fma(mul(square, r), polynomial(square, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800}), low));
  // 1 - r^2 / 2 + r^4 / 24 ... - r low, with the rounding error of the first difference
  Value half = mul(square, constant(0.5)), most = sub(constant(1), half), error = sub(sub(constant(1), most), half);
  Value tail = polynomial(square, {1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800});
  Value cosine = add(most, add(error, fma(mul(square, square), tail, negate(mul(r, low)))));

  if (is_cosine) quarter = make<arith::AddIOp>(quarter, i32(1));
  Value is_odd = equals(make<arith::AndIOp>(quarter, i32(1)), i32(1));
  Value sign = make<arith::ShLIOp>(make<arith::AndIOp>(quarter, i32(2)), i32(30));
  if (!is_cosine) sign = make<arith::XOrIOp>(sign, make<arith::AndIOp>(bits(x), i32(0x80000000)));
  Value result = from_bits(make<arith::XOrIOp>(bits(select(is_odd, cosine, sine)), sign));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return select(is(arith::CmpFPredicate::OLT, size, infinity), result, constant(std::numeric_limits<double>::quiet_NaN()));
}

// log2(2^n m) = n + 2 / ln 2 artanh(s), s = (m - 1) / (m + 1), sqrt(1/2) <= m < sqrt(2): artanh(s) = s + s (s^2 / 3 + s^4 / 5 ...). Relative to it,
// the error is about 2^-35, so that of y log2(x) below 128 changes the power by far less than a unit in the last place.
Pair SingleBody::log2(Value size) {
  Value is_tiny = is(arith::CmpFPredicate::OLT, size, 0x1p-126);
  Value raw = bits(select(is_tiny, mul(size, constant(0x1p25)), size));
  // Subtracting the bits of sqrt(1/2) splits m and n at that mantissa.
  Value whole = make<arith::ShRSIOp>(make<arith::SubIOp>(raw, i32(0x3f3504f3)), i32(23));
  Value m = from_bits(make<arith::SubIOp>(raw, make<arith::ShLIOp>(whole, i32(23))));
  Value n = make<arith::SIToFPOp>(type_, whole);
  n = select(is_tiny, sub(n, constant(25)), n);

  Value one = constant(1), numerator = sub(m, one), divisor = add(m, one);
  Value divisor_low = sub(m, sub(divisor, one));
  Value s = div(numerator, divisor);
  Value remainder = fma(negate(s), divisor_low, fma(negate(s), divisor, numerator));
  Value s_low = div(remainder, divisor);

  Value square = mul(s, s);
  Value square_low = fma(add(s, s), s_low, fma(s, s, negate(square)));
  auto [third, third_low] = times({square, square_low}, 1.0 / 3);
  third_low = fma(mul(square, square), polynomial(square, {1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13}), third_low);
  Value more = mul(s, third);
  Value more_low = fma(s, third_low, fma(s, third, negate(more)));
  more_low = add(fma(s_low, third, more_low), s_low);
  Value artanh = add(s, more);
  Value artanh_low = add(sub(more, sub(artanh, s)), more_low);

  auto [fraction, fraction_low] = times({artanh, artanh_low}, 2 / std::numbers::ln2);
  Value high = add(n, fraction);
  return {high, add(sub(fraction, sub(high, n)), fraction_low)};
}

// 2^n 2^r with n = round(t), |r| <= 1/2. 2^n is applied as two factors, so that results cover denormal numbers as well as the largest ones.
Value SingleBody::exp2(Pair t) {
  constexpr double least = -160, most = 130;  // beyond them, results are 0 and infinity
  Value low = select(is(arith::CmpFPredicate::OLT, abs(t.high), -least), t.low, constant(0));
  Value high = select(is(arith::CmpFPredicate::OLT, t.high, least), constant(least), t.high);
  high = select(is(arith::CmpFPredicate::OGT, high, most), constant(most), high);
  high = select(compare(arith::CmpFPredicate::UNO, high, high), constant(0), high);  // has no integer; power() gives what it should
  Value n = make<math::RoundEvenOp>(high);
  Value r = add(sub(high, n), low);
  SmallVector<double> series{1};
  for (int k = 1; k <= 8; ++k) series.push_back(series.back() * std::numbers::ln2 / k);
  Value exponent = make<arith::FPToSIOp>(i32_, n);
  Value half = make<arith::ShRSIOp>(exponent, i32(1));
  auto power_of_two = [&](Value k) { return from_bits(make<arith::ShLIOp>(make<arith::AddIOp>(k, i32(127)), i32(23))); };
  return mul(mul(polynomial(r, series), power_of_two(half)), power_of_two(make<arith::SubIOp>(exponent, half)));
}

Value SingleBody::power(Value x, Value y) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Value nan = constant(std::numeric_limits<double>::quiet_NaN());
  Value size = abs(x), one = constant(1), zero = constant(0);
  Pair log = log2(size);
  log.high = select(compare(arith::CmpFPredicate::OEQ, size, zero), constant(-infinity), log.high);
  log.high = select(is(arith::CmpFPredicate::OEQ, size, infinity), constant(infinity), log.high);
  Value product = mul(y, log.high);
  Value result = exp2({product, fma(y, log.low, fma(y, log.high, negate(product)))});
  result = select(compare(arith::CmpFPredicate::OEQ, size, one), one, result);

  // Negative only for odd y; of negative numbers, finite ones have powers for whole y only.
  Value floor = make<math::FloorOp>(y), half = mul(y, constant(0.5));
  Value is_whole = compare(arith::CmpFPredicate::OEQ, floor, y);
  Value is_odd = both(is_whole, compare(arith::CmpFPredicate::ONE, make<math::FloorOp>(half), half));
  Value with_sign = from_bits(make<arith::OrIOp>(bits(result), make<arith::AndIOp>(bits(x), i32(0x80000000))));
  result = select(is_odd, with_sign, result);
  Value is_negative = both(compare(arith::CmpFPredicate::OLT, x, zero), is(arith::CmpFPredicate::OGT, x, -infinity));
  result = select(both(is_negative, compare(arith::CmpFPredicate::UNE, floor, y)), nan, result);
  result = select(compare(arith::CmpFPredicate::UNO, x, y), nan, result);
  result = select(compare(arith::CmpFPredicate::OEQ, y, zero), one, result);
  return select(compare(arith::CmpFPredicate::OEQ, x, one), one, result);
}

}  // namespace

Value single_sine_or_cosine(OpBuilder& builder, Location location, Value x, bool is_cosine) {
  return SingleBody(builder, location, x.getType()).sine_or_cosine(x, is_cosine);
}

Value single_power(OpBuilder& builder, Location location, Value x, Value y) {
  return SingleBody(builder, location, x.getType()).power(x, y);
}

}  // namespace heddle::targets
