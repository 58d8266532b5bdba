// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See narrow_body.h. Works on the bits of f32: 1 of sign, 8 of exponent with bias 127, 23 of mantissa. Numbers below the smallest normal one of the
// format are scaled by a power of 2, which is exact, so that their bits are a whole number. No step gives a subnormal f32, except for the smallest
// number of f8e8m0, which is one.
#include "compiler/stage/narrow_body.h"

#include <cmath>

#include "compiler/stage/value_builder.h"

using namespace mlir;

namespace heddle::stage {
namespace {

constexpr uint32_t f32_infinity = 0x7F800000, f32_nan = 0x7FC00000, f32_magnitude = 0x7FFFFFFF;
constexpr int f32_mantissa_bits = 23, f32_bias = 127;

// Values of i32, beside those of f32 or i8 that they come from and become.
class Bits : public ValueBuilder {
 public:
  Bits(OpBuilder& builder, Location location, Type like)
      : ValueBuilder(builder, location, ValueBuilder(builder, location, like).like(builder.getI32Type())) {}

  Value number(uint32_t value) { return constant(static_cast<double>(static_cast<int32_t>(value))); }
  Value both(Value a, uint32_t mask) { return make<arith::AndIOp>(a, number(mask)); }
  Value either(Value a, Value b) { return make<arith::OrIOp>(a, b); }
  Value up(Value a, int by) { return by == 0 ? a : make<arith::ShLIOp>(a, number(static_cast<uint32_t>(by))); }
  Value down(Value a, int by) { return by == 0 ? a : make<arith::ShRUIOp>(a, number(static_cast<uint32_t>(by))); }
  Value sum(Value a, Value b) { return make<arith::AddIOp>(a, b); }
  Value sum(Value a, uint32_t b) { return make<arith::AddIOp>(a, number(b)); }
  Value is(arith::CmpIPredicate predicate, Value a, uint32_t b) { return make<arith::CmpIOp>(predicate, a, number(b)); }
  Value below(Value a, uint32_t b) { return is(arith::CmpIPredicate::ult, a, b); }
  Value above(Value a, uint32_t b) { return is(arith::CmpIPredicate::ugt, a, b); }
  Value equal(Value a, uint32_t b) { return is(arith::CmpIPredicate::eq, a, b); }
  Value of_float(Value a) { return make<arith::BitcastOp>(type(), a); }
  Value to_float(Value a) { return make<arith::BitcastOp>(like(builder_.getF32Type()), a); }
  Value scaled(Value a, int power) {  // of f32
    return mul(a, constant(std::ldexp(1.0, power), a.getType()));
  }
};

Value decode_exponent(Bits& k, Value v) {
  Value bits = k.select(k.equal(v, 0), k.number(0x00400000), k.up(v, f32_mantissa_bits));
  return k.to_float(k.select(k.equal(v, 0xFF), k.number(f32_nan), bits));
}

Value encode_exponent(Bits& k, tx::EncodeFloatOp op, Value magnitude, Value is_nan) {
  const StringRef round = op.getRound().value_or("up");
  Value code = k.down(magnitude, f32_mantissa_bits);
  if (round != "down") {
    // Below 2^-126 the exponent of f32 stays 0: the numbers to choose from are 0x400000 and 0x800000 there.
    const bool is_up = round == "up";
    Value least = k.select(k.equal(code, 0), k.number(is_up ? 0x400001 : 0x600000), k.number(is_up ? 1 : 0x400000));
    Value next = k.make<arith::CmpIOp>(arith::CmpIPredicate::uge, k.both(magnitude, 0x7FFFFF), least);
    code = k.sum(code, k.make<arith::ExtUIOp>(k.type(), next));
  }
  if (op.getSaturate()) {
    code = k.make<arith::MinUIOp>(code, k.number(0xFE));
  } else {
    code = k.select(k.below(magnitude, 0x00400000), k.number(0xFF), code);
  }
  return k.select(is_nan, k.number(0xFF), code);
}

}  // namespace

Value emit_decode_float(OpBuilder& builder, Location location, const tx::NarrowFormat& format, Value x) {
  Bits k(builder, location, x.getType());
  Value v = k.make<arith::ExtUIOp>(k.type(), x);
  if (format.exponent_bits == 8) return decode_exponent(k, v);
  const int sign_at = format.exponent_bits + format.mantissa_bits;
  Value magnitude = k.both(v, (1u << sign_at) - 1);
  Value normal =
      k.sum(k.up(magnitude, f32_mantissa_bits - format.mantissa_bits), static_cast<uint32_t>(f32_bias - format.bias) << f32_mantissa_bits);
  Value small = k.make<arith::SIToFPOp>(k.like(builder.getF32Type()), magnitude);
  small = k.of_float(k.scaled(small, 1 - format.bias - format.mantissa_bits));
  Value bits = k.select(k.below(magnitude, 1u << format.mantissa_bits), small, normal);
  if (format.infinity != 0) {
    Value special = k.select(k.equal(magnitude, format.infinity), k.number(f32_infinity), k.number(f32_nan));
    bits = k.select(k.below(magnitude, format.infinity), bits, special);
  } else if (format.nan != 0 && !format.nan_replaces_zero) {
    bits = k.select(k.equal(magnitude, format.nan), k.number(f32_nan), bits);
  }
  bits = k.either(bits, k.up(k.down(v, sign_at), 31));
  if (format.nan_replaces_zero) bits = k.select(k.equal(v, format.nan), k.number(f32_nan), bits);
  return k.to_float(bits);
}

Value emit_encode_float(OpBuilder& builder, Location location, tx::EncodeFloatOp op, Value x) {
  const tx::NarrowFormat& format = *tx::narrow_format(op.getFormat());
  Bits k(builder, location, x.getType());
  Value bits = k.of_float(x), magnitude = k.both(bits, f32_magnitude), is_nan = k.above(magnitude, f32_infinity);
  Type i8 = k.like(builder.getIntegerType(8));
  if (format.exponent_bits == 8) return k.make<arith::TruncIOp>(i8, encode_exponent(k, op, magnitude, is_nan));

  const int drop = f32_mantissa_bits - format.mantissa_bits, sign_at = format.exponent_bits + format.mantissa_bits;
  // Nearest, ties to even: a carry out of the mantissa is one into the exponent, as it should be.
  Value odd = k.both(k.down(magnitude, drop), 1);
  Value normal = k.down(k.sum(k.sum(magnitude, odd), (1u << (drop - 1)) - 1), drop);
  normal = k.sum(normal, 0u - (static_cast<uint32_t>(f32_bias - format.bias) << format.mantissa_bits));
  Value is_small = k.below(magnitude, static_cast<uint32_t>(f32_bias + 1 - format.bias) << f32_mantissa_bits);
  Value small = k.to_float(k.select(is_small, magnitude, k.number(0)));
  small = k.make<math::RoundEvenOp>(k.scaled(small, format.bias - 1 + format.mantissa_bits));
  Value code = k.select(is_small, k.make<arith::FPToSIOp>(k.type(), small), normal);

  const bool is_bounded = op.getSaturate() || (format.infinity == 0 && format.nan == 0);
  Value is_large = k.above(code, format.largest);
  code = k.select(is_large, k.number(is_bounded ? format.largest : format.infinity != 0 ? format.infinity : format.nan), code);
  Value sign = k.up(k.down(bits, 31), sign_at);
  if (format.nan_replaces_zero) {
    code = k.select(k.equal(code, 0), code, k.either(code, sign));
    if (!is_bounded) is_nan = k.make<arith::OrIOp>(is_nan, is_large);
    code = k.select(is_nan, k.number(format.nan), code);
  } else if (format.nan == 0) {
    code = k.select(is_nan, k.number(1u << sign_at), k.either(code, sign));
  } else {
    code = k.either(k.select(is_nan, k.number(format.nan), code), sign);
  }
  return k.make<arith::TruncIOp>(i8, code);
}

}  // namespace heddle::stage
