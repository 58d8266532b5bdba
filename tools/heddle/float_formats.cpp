// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion through ldexp and nearbyint: a double holds every value of these formats exactly, so rounding once gives the exact result.
#include "tools/heddle/float_formats.h"

#include <cmath>
#include <limits>

namespace heddle::tool {

double decode_float(uint32_t bits, const FloatFormat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const uint32_t exponent = (bits >> format.mantissa_bits) & top;
  const bool negative = (bits >> (format.mantissa_bits + format.exponent_bits)) & 1;
  double value;
  if (exponent == top && format.has_infinity) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == top && mantissa == (1u << format.mantissa_bits) - 1) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    value = std::ldexp(mantissa | (1u << format.mantissa_bits), static_cast<int>(exponent) - bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

uint32_t encode_float(double value, const FloatFormat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  const uint32_t nan =
      (top << format.mantissa_bits) | (format.has_infinity ? 1u << (format.mantissa_bits - 1) : (1u << format.mantissa_bits) - 1);
  const uint32_t infinity = format.has_infinity ? top << format.mantissa_bits : nan;
  if (std::isnan(value)) return sign | nan;
  if (std::isinf(value)) return sign | infinity;
  int exponent = 0;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  std::frexp(magnitude, &exponent);
  exponent -= 1;  // magnitude = 1.x * 2^exponent
  if (exponent < 1 - bias) exponent = 1 - bias;
  // In units of the last place; a carry out of the mantissa increments the exponent without further work.
  const uint32_t units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  uint32_t bits = units;
  if (units >= (1u << format.mantissa_bits)) bits = units + (static_cast<uint32_t>(exponent + bias - 1) << format.mantissa_bits);
  const uint32_t largest = format.has_infinity ? (top << format.mantissa_bits) - 1 : nan - 1;
  if (exponent + bias > static_cast<int>(top) || bits > largest) return sign | infinity;
  return sign | bits;
}

}  // namespace heddle::tool
