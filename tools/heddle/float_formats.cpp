// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion through ldexp and nearbyint: a double holds every value of these formats exactly, so rounding once gives the exact result.
#include "tools/heddle/float_formats.h"

#include <cmath>
#include <limits>

namespace heddle::tool {
namespace {

constexpr int kPowerBias = 127;
constexpr uint32_t kPowerNan = 0xFF;

int bias_of(const FloatFormat& format) {
  return (1 << (format.exponent_bits - 1)) - (format.specials == Specials::nan_for_zero ? 0 : 1);
}

uint32_t encode_power(double value) {
  if (!(value >= 0) || std::isinf(value)) return kPowerNan;
  int exponent = 0;
  const double half = std::frexp(value, &exponent);  // value = half * 2^exponent, half from 1/2
  const int power = value == 0 ? 0 : exponent - 1 + (half >= 0.75) + kPowerBias;
  return power < 0 ? 0 : power > static_cast<int>(kPowerNan) ? kPowerNan : static_cast<uint32_t>(power);
}

}  // namespace

const FloatFormat* short_format(heddle_element_type_t type) {
  static constexpr struct {
    heddle_element_type_t type;
    const FloatFormat& format;
  } kFormats[] = {{HEDDLE_TYPE_F16, kF16},       {HEDDLE_TYPE_BF16, kBF16},
                  {HEDDLE_TYPE_F8E4M3, kF8E4M3}, {HEDDLE_TYPE_F8E4M3FNUZ, kF8E4M3FNUZ},
                  {HEDDLE_TYPE_F8E5M2, kF8E5M2}, {HEDDLE_TYPE_F8E5M2FNUZ, kF8E5M2FNUZ},
                  {HEDDLE_TYPE_F8E8M0, kF8E8M0}, {HEDDLE_TYPE_F4E2M1, kF4E2M1}};
  for (const auto& known : kFormats) {
    if (known.type == type) return &known.format;
  }
  return nullptr;
}

double decode_float(uint32_t bits, const FloatFormat& format) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.specials == Specials::powers) return bits == kPowerNan ? kNan : std::ldexp(1.0, static_cast<int>(bits) - kPowerBias);
  const int bias = bias_of(format);
  const uint32_t top = (1u << format.exponent_bits) - 1, last = (1u << format.mantissa_bits) - 1;
  const uint32_t mantissa = bits & last;
  const uint32_t exponent = (bits >> format.mantissa_bits) & top;
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits)) & 1;
  double value;
  if (exponent == top && format.specials == Specials::ieee) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : kNan;
  } else if (exponent == top && mantissa == last && format.specials == Specials::nan) {
    value = kNan;
  } else if (negative && exponent == 0 && mantissa == 0 && format.specials == Specials::nan_for_zero) {
    return kNan;  // the only one: it has no sign
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa | (1u << format.mantissa_bits), static_cast<int>(exponent) - bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

uint32_t encode_float(double value, const FloatFormat& format) {
  if (format.specials == Specials::powers) return encode_power(value);
  const int bias = bias_of(format);
  const bool is_ieee = format.specials == Specials::ieee, has_zeros = format.specials != Specials::nan_for_zero;
  const uint32_t top = (1u << format.exponent_bits) - 1, sign_bit = 1u << (format.exponent_bits + format.mantissa_bits);
  const uint32_t sign = std::signbit(value) ? sign_bit : 0, last = (1u << format.mantissa_bits) - 1;
  const uint32_t all = (top << format.mantissa_bits) | last;
  const uint32_t largest = is_ieee ? (top << format.mantissa_bits) - 1 : format.specials == Specials::nan ? all - 1 : all;
  uint32_t nan = sign | all, too_large = nan;
  if (is_ieee) {
    nan = sign | top << format.mantissa_bits | 1u << (format.mantissa_bits - 1);
    too_large = sign | top << format.mantissa_bits;
  } else if (format.specials != Specials::nan) {
    nan = sign_bit;
    too_large = has_zeros ? sign | largest : nan;
  }
  if (std::isnan(value)) return nan;
  if (std::isinf(value)) return too_large;
  int exponent = 0;
  const double magnitude = std::fabs(value);
  std::frexp(magnitude, &exponent);
  exponent -= 1;  // magnitude = 1.x * 2^exponent
  if (magnitude == 0 || exponent < 1 - bias) exponent = 1 - bias;
  // In units of the last place; a carry out of the mantissa increments the exponent without further work.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  uint32_t bits = static_cast<uint32_t>(units);
  if (bits > last) bits += static_cast<uint32_t>(exponent + bias - 1) << format.mantissa_bits;
  if (exponent + bias > static_cast<int>(top) || bits > largest) return too_large;
  return bits == 0 && !has_zeros ? 0 : sign | bits;
}

}  // namespace heddle::tool
