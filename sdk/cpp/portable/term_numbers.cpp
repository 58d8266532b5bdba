// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See terms.h. Instructions on numbers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "terms.h"

namespace heddle::sdk::portable {

namespace {

// The nearest float with this many bits for the exponent and the fraction, ties to even; as bits.
uint64_t rounded_to(double value, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (exponent_bits + fraction_bits) : 0;
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  if (std::isnan(value)) return infinity | uint64_t{1} << (fraction_bits - 1);
  const double size = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  if (size == 0) return sign;
  int exponent = std::ilogb(size);
  exponent = std::max(exponent, 1 - bias);
  const auto scaled = static_cast<uint64_t>(std::nearbyint(std::ldexp(size, fraction_bits - exponent)));
  // A fraction that reaches the next power of 2 carries into the exponent.
  const uint64_t bits = (static_cast<uint64_t>(exponent + bias - 1) << fraction_bits) + scaled;
  return sign | std::min(bits, infinity);
}

double float_of(uint64_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((uint64_t{1} << exponent_bits) - 1));
  const auto fraction = static_cast<double>(bits & ((uint64_t{1} << fraction_bits) - 1));
  double size;
  if (exponent == (1 << exponent_bits) - 1) {
    size = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const double one = exponent == 0 ? 0 : std::ldexp(1.0, fraction_bits);
    size = std::ldexp(one + fraction, std::max(exponent, 1) - bias - fraction_bits);
  }
  return bits >> (exponent_bits + fraction_bits) & 1 ? -size : size;
}

template <typename To>
uint64_t saturated(double value) {
  constexpr auto kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(kLow)) return static_cast<uint64_t>(kLow);
  if (value >= static_cast<double>(kHigh)) return static_cast<uint64_t>(kHigh);
  return static_cast<uint64_t>(static_cast<To>(value));
}

uint64_t integer_of(double value, Scalar type, bool has_sign) {
  switch (type) {
    case Scalar::kI1:
      return has_sign ? (value <= -1) : (value >= 1);
    case Scalar::kI8:
      return has_sign ? saturated<int8_t>(value) : saturated<uint8_t>(value);
    case Scalar::kI16:
      return has_sign ? saturated<int16_t>(value) : saturated<uint16_t>(value);
    case Scalar::kI32:
      return has_sign ? saturated<int32_t>(value) : saturated<uint32_t>(value);
    default:
      return has_sign ? saturated<int64_t>(value) : saturated<uint64_t>(value);
  }
}

double real_of(Op op, double a, double b) {
  switch (op) {
    case Op::kAddF:
      return a + b;
    case Op::kSubF:
      return a - b;
    case Op::kMulF:
      return a * b;
    case Op::kDivF:
      return a / b;
    case Op::kMaximumF:
      return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
    case Op::kMinimumF:
      return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    case Op::kPowF:
      return std::pow(a, b);
    case Op::kNegF:
      return -a;
    case Op::kAbsF:
      return std::fabs(a);
    case Op::kCeilF:
      return std::ceil(a);
    case Op::kFloorF:
      return std::floor(a);
    case Op::kRoundEvenF:
      return std::nearbyint(a);
    case Op::kSqrtF:
      return std::sqrt(a);
    case Op::kExpF:
      return std::exp(a);
    case Op::kLogF:
      return std::log(a);
    case Op::kTanhF:
      return std::tanh(a);
    case Op::kCosF:
      return std::cos(a);
    case Op::kSinF:
      return std::sin(a);
    default:
      return std::erf(a);
  }
}

uint64_t integer_result(Op op, Scalar type, uint64_t a, uint64_t b) {
  const int64_t x = with_sign(type, a), y = with_sign(type, b);
  const uint32_t width = width_of(type);
  switch (op) {
    case Op::kAddI:
      return a + b;
    case Op::kSubI:
      return a - b;
    case Op::kMulI:
      return a * b;
    case Op::kDivSI:
      return y == 0 ? 0 : y == -1 ? 0 - a : static_cast<uint64_t>(x / y);
    case Op::kDivUI:
      return b == 0 ? 0 : a / b;
    case Op::kRemSI:
      return y == 0 || y == -1 ? 0 : static_cast<uint64_t>(x % y);
    case Op::kRemUI:
      return b == 0 ? 0 : a % b;
    case Op::kMaxSI:
      return x > y ? a : b;
    case Op::kMinSI:
      return x < y ? a : b;
    case Op::kMaxUI:
      return std::max(a, b);
    case Op::kMinUI:
      return std::min(a, b);
    case Op::kAndI:
      return a & b;
    case Op::kOrI:
      return a | b;
    case Op::kXOrI:
      return a ^ b;
    case Op::kShlI:
      return b >= width ? 0 : a << b;
    case Op::kShrUI:
      return b >= width ? 0 : a >> b;
    default:
      return static_cast<uint64_t>(x >> std::min<uint64_t>(b, std::min(width - 1, 63u)));
  }
}

template <typename T>
bool holds(Predicate predicate, T a, T b) {
  switch (predicate) {
    case Predicate::kEqual:
    case Predicate::kOrEqual:
      return a == b;
    case Predicate::kNotEqual:
    case Predicate::kOrNotEqual:
      return a != b;
    case Predicate::kLess:
    case Predicate::kOrLess:
    case Predicate::kBelow:
      return a < b;
    case Predicate::kLessEqual:
    case Predicate::kOrLessEqual:
    case Predicate::kBelowEqual:
      return a <= b;
    case Predicate::kGreater:
    case Predicate::kOrGreater:
    case Predicate::kAbove:
      return a > b;
    default:
      return a >= b;
  }
}

bool compare_floats(Predicate predicate, double a, double b) {
  const bool is_unordered = std::isnan(a) || std::isnan(b);
  if (predicate == Predicate::kUnordered || predicate == Predicate::kOrdered) return is_unordered == (predicate == Predicate::kUnordered);
  if (is_unordered) return predicate >= Predicate::kOrEqual;
  return holds(predicate, a, b);
}

}  // namespace

int64_t with_sign(Scalar type, uint64_t bits) {
  const uint32_t width = width_of(type);
  return static_cast<int64_t>(bits << (64 - width)) >> (64 - width);
}

Number number_of_bits(Scalar type, uint64_t bits) {
  switch (type) {
    case Scalar::kF16:
      return {float_of(bits, 5, 10), 0};
    case Scalar::kBf16:
      return {float_of(bits, 8, 7), 0};
    case Scalar::kF32:
      return {float_of(bits, 8, 23), 0};
    case Scalar::kF64: {
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return {value, 0};
    }
    default:
      return {0, masked(type, bits)};
  }
}

uint64_t bits_of_number(Scalar type, const Number& number) {
  switch (type) {
    case Scalar::kF16:
      return rounded_to(number.real, 5, 10);
    case Scalar::kBf16:
      return rounded_to(number.real, 8, 7);
    case Scalar::kF32:
      return rounded_to(number.real, 8, 23);
    case Scalar::kF64: {
      uint64_t bits;
      std::memcpy(&bits, &number.real, sizeof bits);
      return bits;
    }
    default:
      return masked(type, number.bits);
  }
}

Number compute(Op op, Scalar type, uint64_t value, const Scalar* types, const Number* operands) {
  const Number &a = operands[0], &b = operands[1];
  if (op <= Op::kErfF) return {real_of(op, a.real, operand_count(op) > 1 ? b.real : 0), 0};
  if (op <= Op::kShrSI) return {0, masked(type, integer_result(op, type, a.bits, b.bits))};
  switch (op) {
    case Op::kCompareF:
      return {0, compare_floats(static_cast<Predicate>(value), a.real, b.real)};
    case Op::kCompareI: {
      const auto predicate = static_cast<Predicate>(value);
      if (predicate >= Predicate::kBelow) return {0, holds(predicate, a.bits, b.bits)};
      return {0, holds(predicate, with_sign(types[0], a.bits), with_sign(types[0], b.bits))};
    }
    case Op::kSelect:
      return a.bits ? b : operands[2];
    case Op::kExtSI:
      return {0, masked(type, static_cast<uint64_t>(with_sign(types[0], a.bits)))};
    case Op::kExtUI:
    case Op::kTruncI:
      return {0, masked(type, a.bits)};
    case Op::kSIToF:
      return {static_cast<double>(with_sign(types[0], a.bits)), 0};
    case Op::kUIToF:
      return {static_cast<double>(a.bits), 0};
    case Op::kFToSI:
    case Op::kFToUI:
      return {0, masked(type, integer_of(a.real, type, op == Op::kFToSI))};
    case Op::kBitcast:
      return number_of_bits(type, bits_of_number(types[0], a));
    default:
      return a;  // floats of another type
  }
}

}  // namespace heddle::sdk::portable
