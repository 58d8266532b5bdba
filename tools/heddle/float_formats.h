// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion between the short floating-point formats and double. Used for reading, printing, comparing and generating values; not fast.
#pragma once

#include <cstdint>

namespace heddle::tool {

// A binary format with a sign, exponent and mantissa bits in this order. IEEE formats have infinities. OCP E4M3 (f8e4m3) has none: its
// largest exponent holds numbers too, and only S.1111.111 is a NaN.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
};
constexpr FloatFormat kF16{5, 10, true};
constexpr FloatFormat kBF16{8, 7, true};
constexpr FloatFormat kF8E5M2{5, 2, true};
constexpr FloatFormat kF8E4M3{4, 3, false};

double decode_float(uint32_t bits, const FloatFormat& format);
// Rounds to nearest, ties to even. A value that is too large becomes an infinity, or a NaN in a format without infinities.
uint32_t encode_float(double value, const FloatFormat& format);

}  // namespace heddle::tool
