// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion between the short floating-point formats and double. Used for reading, printing, comparing and generating values; not fast.
#pragma once

#include <cstdint>

#include "heddle/types.h"

namespace heddle::tool {

// What a format has besides numbers. ieee: infinities and NaN, by the largest exponent. nan: only S.11..11 is a NaN. nan_for_zero: only the bits of -0
// are a NaN, and the bias is larger by 1. none: numbers only. powers: no sign and no mantissa, the bits are the exponent, and only 11..11 is a NaN.
enum class Specials { ieee, nan, nan_for_zero, none, powers };

// A binary format with a sign, exponent and mantissa bits in this order.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  Specials specials;
};
constexpr FloatFormat kF16{5, 10, Specials::ieee};
constexpr FloatFormat kBF16{8, 7, Specials::ieee};
constexpr FloatFormat kF8E5M2{5, 2, Specials::ieee};
constexpr FloatFormat kF8E4M3{4, 3, Specials::nan};
constexpr FloatFormat kF8E5M2FNUZ{5, 2, Specials::nan_for_zero};
constexpr FloatFormat kF8E4M3FNUZ{4, 3, Specials::nan_for_zero};
constexpr FloatFormat kF8E8M0{8, 0, Specials::powers};
constexpr FloatFormat kF4E2M1{2, 1, Specials::none};

// The format of a type of 16 bits or less; null if it is none of floats.
const FloatFormat* short_format(heddle_element_type_t type);

double decode_float(uint32_t bits, const FloatFormat& format);
// Rounds to nearest, ties to even. A value that is too large becomes an infinity; in a format without infinities a NaN, and in one without NaN the largest
// number. A NaN becomes -0 there. In a format of powers of 2, ties are rounded up, too small values become the smallest one, and those below 0 NaN.
uint32_t encode_float(double value, const FloatFormat& format);

}  // namespace heddle::tool
