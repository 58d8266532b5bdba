// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops on the bits of elements.
#include <cmath>
#include <limits>

#include "compiler/import/onnx_narrow.h"
#include "compiler/import/stablehlo_arithmetic.h"
#include "compiler/ir/bits.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

template <Combine of_bools, typename OpT>
void bitwise(Op& op) {
  auto [a, b] = like_pair(op);
  need_integers(op, a);
  op.set_result(is_bool(a) ? combined(op, of_bools, a, b) : op.binary<OpT>(a, b));
}

void invert(Op& op) {
  op.expect(1);
  Value x = op.input(0);
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
  Value x = op.input(0);
  need_integers(op, x);
  if (is_bool(x)) return op.set_result(x);
  op.set_result(op.converted(bit_count(op, as_unsigned(op, x)), tx::element_of(x)));
}

void count_leading_zeros(Op& op) {
  op.expect(1);
  Value x = op.input(0);
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
  if (op.data(0).is_complex() || llvm::isa<ComplexType>(getElementTypeOrSelf(op.source().getResult(0).getType())))
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
  Value x = op.input(0);
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
    Value size = unary<tx::AbsOp>(op, result), sign = has_sign(op, result);
    Value beyond = op.select(sign, op.number(result, -std::numeric_limits<double>::infinity()),
                             op.number(result, std::numeric_limits<double>::infinity()));
    Value zero = op.select(sign, op.number(result, -0.0), op.number(result, 0.0));
    result = op.select(op.compare(tx::CompareKind::gt, size, op.number(size, largest)), beyond, result);
    result = op.select(op.compare(tx::CompareKind::lt, size, op.number(size, smallest)), zero, result);
  }
  result = op.select(op.compare(tx::CompareKind::ne, x, x), x, result);
  op.set_result(op.converted(result, own));
}

}  // namespace

const Table& bit_ops() {
  static const Table table = {
      {"stablehlo.and", {bitwise<Combine::land, tx::BitAndOp>, kEach}},
      {"stablehlo.bitcast_convert", {bitcast_convert, kNarrow | kComplex}},
      {"stablehlo.count_leading_zeros", {count_leading_zeros, kEach}},
      {"stablehlo.not", {invert, kEach}},
      {"stablehlo.or", {bitwise<Combine::lor, tx::BitOrOp>, kEach}},
      {"stablehlo.popcnt", {population_count, kEach}},
      {"stablehlo.reduce_precision", {reduce_precision, kEach}},
      {"stablehlo.shift_left", {shift<Shift::left>, kEach}},
      {"stablehlo.shift_right_arithmetic", {shift<Shift::arithmetic>, kEach}},
      {"stablehlo.shift_right_logical", {shift<Shift::logical>, kEach}},
      {"stablehlo.xor", {bitwise<Combine::lxor, tx::BitXorOp>, kEach}},
  };
  return table;
}

}  // namespace heddle::import::stablehlo
