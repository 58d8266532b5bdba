// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values at which arithmetic goes wrong, and formats of floats from their definitions: what tests of single instructions share. Nothing here comes from
// the interpreter.
#pragma once

#include <cmath>
#include <functional>

#include "tests/amdgpu/single.h"

namespace heddle::amdgpu {

__extension__ using Quad = __float128;
__extension__ using Wide = __int128;

// Values at which arithmetic goes wrong, then random ones.
struct Values {
  Random random{7};
  uint32_t bits32(unsigned n) {
    static const uint32_t kSpecial[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x7f7fffff,
                                        0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001,
                                        0x4b000000, 0x4b7fffff, 0x4effffff, 0x4f000000, 0x4f800000, 0xcf000000, 0x7fffffff, 0xffffffff,
                                        31,         32,         0xffff,     0x10000,    0x3f000000, 0x40490fdb};
    const uint64_t r = random.next();
    if (n % 3 == 0) return kSpecial[r % std::size(kSpecial)];
    if (n % 3 == 1) return static_cast<uint32_t>(r);
    return (static_cast<uint32_t>(r) & 0x807fffff) | (112u + static_cast<uint32_t>(r >> 40) % 32) << 23;  // near 1
  }
  uint64_t bits64(unsigned n) {
    static const uint64_t kSpecial[] = {0,
                                        1,
                                        uint64_t{1} << 63,
                                        0x000fffffffffffff,
                                        0x0010000000000000,
                                        0x7fefffffffffffff,
                                        0x7ff0000000000000,
                                        0xfff0000000000000,
                                        0x7ff8000000000000,
                                        0x3ff0000000000000,
                                        0xbff0000000000000,
                                        0xffffffffffffffff};
    const uint64_t r = random.next();
    if (n % 3 == 0) return kSpecial[r % std::size(kSpecial)];
    if (n % 3 == 1) return r;
    return (r & 0x800fffffffffffff) | (1000 + (random.next() % 48)) << 52;
  }
};

inline float f(uint32_t x) {
  return std::bit_cast<float>(x);
}
inline double d(uint64_t x) {
  return std::bit_cast<double>(x);
}
inline uint32_t u(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : u(a) == u(b);
}
inline bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}
inline float half(uint32_t h) {  // from the definition of the format
  const uint32_t e = h >> 10 & 31, m = h & 1023;
  const float sign = (h & 0x8000) != 0 ? -1.0F : 1.0F;
  if (e == 31) return m != 0 ? NAN : sign * INFINITY;
  return sign * (e == 0 ? std::ldexp(static_cast<float>(m), -24) : std::ldexp(static_cast<float>(m + 1024), static_cast<int>(e) - 25));
}
// The nearest f16 of an exact value, by search among all of them.
inline uint32_t nearest_half(Quad x) {
  if (x != x) return 0x7e00;
  const bool negative = x < 0;
  if (negative) x = -x;
  uint32_t low = 0, high = 0x7c00;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (Quad{half(middle)} <= x ? low : high) = middle;
  }
  const Quad below = Quad{half(low)}, above = high == 0x7c00 ? Quad{65536} : Quad{half(high)};
  uint32_t result = low;
  if (x - below > above - x || (x - below == above - x && (low & 1) != 0)) result = high;
  if (low == 0x7bff && x >= Quad{65520}) result = 0x7c00;
  return result | (negative ? 0x8000 : 0);
}

}  // namespace heddle::amdgpu
