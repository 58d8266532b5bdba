// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See scalar_body.h.
#include "compiler/stage/scalar_body.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "compiler/ir/bits.h"
#include "compiler/stage/narrow_body.h"
#include "compiler/stage/value_builder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle::stage {

namespace {

class Body : public ValueBuilder {
 public:
  using ValueBuilder::ValueBuilder;
  Value exp(Value x) { return make<math::ExpOp>(x); }
};

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
  // Saturating. The bounds are compared separately, since the largest integer may not be a float. NaN becomes 0.
  unsigned width = to_type.getIntOrFloatBitWidth();
  bool without_sign = is_unsigned(target);
  double low = without_sign ? 0 : -std::ldexp(1.0, static_cast<int>(width) - 1);
  double beyond = without_sign ? std::ldexp(1.0, static_cast<int>(width)) : std::ldexp(1.0, static_cast<int>(width) - 1);
  Value low_value = from.constant(low), beyond_value = from.constant(beyond);
  // Conversions go through a type that can represent every value inside the bounds.
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

// The same bits as another type. Elements of less than 32 bits are rounded to their own type first.
Value bit_cast(OpBuilder& builder, Location location, Value x, Type source, Type target) {
  auto like = [&](Type element) -> Type {
    if (auto vector = llvm::dyn_cast<VectorType>(x.getType())) return VectorType::get(vector.getShape(), element);
    return element;
  };
  auto stored = [](Type element) -> Type {
    if (auto integer = llvm::dyn_cast<IntegerType>(element)) return IntegerType::get(element.getContext(), integer.getWidth());
    return element;
  };
  const Type from = stored(source), to = stored(target), computed = compute_type(target);
  if (getElementTypeOrSelf(x.getType()) != from) x = builder.create<arith::TruncFOp>(location, like(from), x);
  if (from != to) x = builder.create<arith::BitcastOp>(location, like(to), x);
  return computed == to ? x : builder.create<arith::ExtFOp>(location, like(computed), x).getResult();
}

// See tx.random_bits. Each of the ten rounds multiplies two of the four words, and mixes the halves of the products with the others and the key.
Value philox(OpBuilder& builder, Location location, Value index, Value seed) {
  Body wide(builder, location, index.getType());
  Type i32 = wide.like(builder.getI32Type());
  Body word(builder, location, i32);
  auto number = [&](uint32_t value) -> Value {
    TypedAttr scalar = builder.getIntegerAttr(builder.getI32Type(), APInt(32, value));
    if (auto vector = llvm::dyn_cast<VectorType>(i32)) scalar = SplatElementsAttr::get(vector, scalar);
    return builder.create<arith::ConstantOp>(location, scalar);
  };
  auto low = [&](Value value) { return word.make<arith::TruncIOp>(i32, value); };
  auto high = [&](Value value) { return low(wide.make<arith::ShRUIOp>(value, wide.constant(32))); };
  auto product = [&](uint32_t factor, Value value) {
    Value both = wide.make<arith::ExtUIOp>(wide.type(), value), by = wide.make<arith::ExtUIOp>(wide.type(), number(factor));
    return wide.make<arith::MulIOp>(both, by);
  };
  constexpr uint32_t factors[] = {0xD2511F53, 0xCD9E8D57}, key_steps[] = {0x9E3779B9, 0xBB67AE85};
  Value zero = number(0);
  Value words[] = {low(index), high(index), zero, zero}, key[] = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    Value first = product(factors[0], words[0]), second = product(factors[1], words[2]);
    Value next[] = {word.make<arith::XOrIOp>(word.make<arith::XOrIOp>(high(second), words[1]), key[0]), low(second),
                    word.make<arith::XOrIOp>(word.make<arith::XOrIOp>(high(first), words[3]), key[1]), low(first)};
    std::copy(std::begin(next), std::end(next), std::begin(words));
    for (int i = 0; i < 2; ++i) key[i] = word.make<arith::AddIOp>(key[i], number(key_steps[i]));
  }
  return words[0];
}

// Integer division of the operands; 0 where it is undefined, so that no input can trap.
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

Value emit_constant_power(OpBuilder& builder, Location location, Value x, double exponent) {
  Body body(builder, location, x.getType());
  double quarters = std::fabs(exponent) * 4;
  if (quarters != std::floor(quarters) || quarters > 12) return body.make<math::PowFOp>(x, body.constant(exponent));
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
        return body.select(body.compare(arith::CmpFPredicate::OGT, zero, x), zero, x);  // one instruction; keeps NaN
      })
      .Case([&](tx::FloorOp) -> Value { return is_float ? body.make<math::FloorOp>(x) : x; })
      .Case([&](tx::CeilOp) -> Value { return is_float ? body.make<math::CeilOp>(x) : x; })
      .Case([&](tx::RoundOp) -> Value { return is_float ? body.make<math::RoundEvenOp>(x) : x; })
      .Case<tx::ExpOp, tx::LogOp, tx::SqrtOp, tx::RsqrtOp, tx::ReciprocalOp, tx::TanhOp, tx::SigmoidOp, tx::ErfOp, tx::CosOp, tx::SinOp>(
          [&](Operation* unary) -> Value {
            if (!is_float) return unsupported();
            if (llvm::isa<tx::ExpOp>(unary)) return body.exp(x);
            if (llvm::isa<tx::LogOp>(unary)) return body.make<math::LogOp>(x);
            if (llvm::isa<tx::SqrtOp>(unary)) return body.sqrt(x);
            if (llvm::isa<tx::RsqrtOp>(unary)) return body.div(body.constant(1), body.sqrt(x));
            if (llvm::isa<tx::ReciprocalOp>(unary)) return body.div(body.constant(1), x);
            if (llvm::isa<tx::TanhOp>(unary)) return body.make<math::TanhOp>(x);
            if (llvm::isa<tx::CosOp>(unary)) return body.make<math::CosOp>(x);
            if (llvm::isa<tx::SinOp>(unary)) return body.make<math::SinOp>(x);
            if (llvm::isa<tx::SigmoidOp>(unary))
              return body.div(body.constant(1), body.add(body.constant(1), body.exp(body.sub(body.constant(0), x))));
            return body.make<math::ErfOp>(x);
          })
      .Case([&](tx::AddOp) -> Value { return is_float ? body.add(x, operands[1]) : body.make<arith::AddIOp>(x, operands[1]); })
      .Case([&](tx::SubOp) -> Value { return is_float ? body.sub(x, operands[1]) : body.make<arith::SubIOp>(x, operands[1]); })
      .Case([&](tx::MulOp) -> Value { return is_float ? body.mul(x, operands[1]) : body.make<arith::MulIOp>(x, operands[1]); })
      .Case([&](tx::DivOp) -> Value { return is_float ? body.div(x, operands[1]) : integer_division(body, x, operands[1], without_sign); })
      .Case([&](tx::MaxOp) -> Value {
        if (is_float) return body.make<arith::MaximumFOp>(x, operands[1]);
        return without_sign ? body.make<arith::MaxUIOp>(x, operands[1]) : body.make<arith::MaxSIOp>(x, operands[1]);
      })
      .Case([&](tx::MinOp) -> Value {
        if (is_float) return body.make<arith::MinimumFOp>(x, operands[1]);
        return without_sign ? body.make<arith::MinUIOp>(x, operands[1]) : body.make<arith::MinSIOp>(x, operands[1]);
      })
      .Case([&](tx::PowOp pow) -> Value {
        if (!is_float) return unsupported();
        Value behind = pow.getRhs();
        while (auto broadcast = behind.getDefiningOp<tx::BroadcastOp>()) behind = broadcast.getInput();
        if (auto exponent = behind.getDefiningOp<tx::ConstantOp>()) {
          if (auto splat = llvm::dyn_cast<SplatElementsAttr>(exponent.getValue())) {
            APFloat value = splat.getSplatValue<APFloat>();
            bool lost;
            value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
            double y = value.convertToDouble();
            // sqrt-based roots differ from pow for -0 and -infinity; whole exponents do not.
            if (y == std::floor(y) || y == 0.5) return emit_constant_power(builder, location, x, y);
          }
        }
        return body.make<math::PowFOp>(x, operands[1]);
      })
      .Case([&](tx::BitAndOp) -> Value { return body.make<arith::AndIOp>(x, operands[1]); })
      .Case([&](tx::BitOrOp) -> Value { return body.make<arith::OrIOp>(x, operands[1]); })
      .Case([&](tx::BitXorOp) -> Value { return body.make<arith::XOrIOp>(x, operands[1]); })
      .Case([&](tx::BitCastOp cast) -> Value { return bit_cast(builder, location, x, element, tx::element_of(cast.getResult())); })
      .Case([&](tx::RandomBitsOp) -> Value { return philox(builder, location, x, operands[1]); })
      .Case([&](tx::CompareOp compare_op) -> Value { return compare(body, compare_op.getKind(), x, operands[1], without_sign); })
      .Case([&](tx::SelectOp) -> Value { return body.make<arith::SelectOp>(x, operands[1], operands[2]); })
      .Case([&](tx::DecodeFloatOp decode) -> Value {
        return emit_decode_float(builder, location, *tx::narrow_format(decode.getFormat()), x);
      })
      .Case([&](tx::EncodeFloatOp encode) -> Value { return emit_encode_float(builder, location, encode, x); })
      .Case([&](tx::CastOp) -> Value {
        Type target = llvm::cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
        Body to(builder, location, body.like(compute_type(target)));
        Value made = cast(body, to, x, element, target);
        const bool is_rounded = to.is_float() && compute_type(target) != target && element != target;
        return is_rounded ? to.make<arith::ExtFOp>(to.type(), to.make<arith::TruncFOp>(to.like(target), made)) : made;
      })
      .Default([&](Operation*) -> Value { return unsupported(); });
}

}  // namespace heddle::stage
