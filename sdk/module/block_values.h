// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The definitions of types whose values are stored in blocks: `N` consecutive values of one block, from `first` on, which is a multiple of N. N divides
// kAlike, the number of consecutive values that have everything but their own bits in common. A K type has blocks of 256 values ("super-blocks"), in which
// each 16 or 32 values have a scale of their own.
//
// block_types.cpp compiles this for the host, drivers for their devices (heddle/ext/blocks.h); so it needs no library. The arithmetic is that of the
// formats' definitions, in f32 and in its order: whoever includes this is compiled without contraction of multiplications and additions, and with
// subnormal numbers, so that values are equal bit by bit everywhere.
#pragma once

#include <stdint.h>

// In C++ for OpenCL, the blocks are in global memory, the values in the thread's own, and tables in constant memory.
#ifdef __OPENCL_CPP_VERSION__
#define HEDDLE_BLOCK_BYTES __global
#define HEDDLE_BLOCK_VALUES __private
#define HEDDLE_BLOCK_TABLE __constant
#else
#define HEDDLE_BLOCK_BYTES
#define HEDDLE_BLOCK_VALUES
#define HEDDLE_BLOCK_TABLE
#endif

namespace heddle::module::blocks {

using Bytes = HEDDLE_BLOCK_BYTES const uint8_t*;
using Floats = HEDDLE_BLOCK_VALUES float*;

inline float float_of_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

inline uint32_t bits_of_float(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

inline uint32_t u16_at(Bytes bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
}

inline float f16_at(Bytes bytes) {
  const uint32_t bits = u16_at(bytes), sign = (bits & 0x8000) << 16, rest = bits & 0x7FFF;
  // Exact also for subnormals: their bits as an f32 that is too small by 2^112.
  const uint32_t finite = bits_of_float(float_of_bits(rest << 13) * 0x1p112f), special = 0x7F800000 | (rest & 0x3FF) << 13;
  return float_of_bits(sign | (rest >= 0x7C00 ? special : finite));
}

inline float as_float(int value) {
  return static_cast<float>(value);
}

// Without branches, so that it is vectorized. A NaN stays a NaN.
inline uint16_t to_f16(float value) {
  const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  const uint32_t normal = (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  // The addition rounds to a multiple of 2^-24, the smallest f16.
  const uint32_t small = bits_of_float(float_of_bits(magnitude) + 0.5f) - bits_of_float(0.5f);
  uint32_t out = magnitude < (113u << 23) ? small : normal;
  out = magnitude >= (143u << 23) ? 0x7C00 : out;
  out = magnitude > 0x7F800000 ? 0x7E00 : out;
  return static_cast<uint16_t>(sign | out);
}

inline uint16_t to_bf16(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
  return static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

// f16 scale | 16 bytes: low halves are values 0 to 15, high halves 16 to 31
struct Q4_0 {
  static constexpr uint32_t kElements = 32, kBytes = 18, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const float d = f16_at(block);
    Bytes q = block + 2 + first % 16;
    const uint32_t shift = first / 16 * 4;
    for (uint32_t i = 0; i < N; ++i) out[i] = as_float((q[i] >> shift & 15) - 8) * d;
  }
};

// f16 scale | f16 minimum | 16 bytes
struct Q4_1 {
  static constexpr uint32_t kElements = 32, kBytes = 20, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const float d = f16_at(block), m = f16_at(block + 2);
    Bytes q = block + 4 + first % 16;
    const uint32_t shift = first / 16 * 4;
    for (uint32_t i = 0; i < N; ++i) out[i] = as_float(q[i] >> shift & 15) * d + m;
  }
};

// Values of 5 bits: bit 4 of all 32 is in the four bytes of `high`, that of value i in bit i; the lower ones are in 16 bytes as those of Q4_0.
template <uint32_t N>
inline void q5_values(Bytes high_bytes, Bytes low, uint32_t first, HEDDLE_BLOCK_VALUES int (&out)[N]) {
  const uint32_t high = (u16_at(high_bytes) | u16_at(high_bytes + 2) << 16) >> first;
  Bytes q = low + first % 16;
  const uint32_t shift = first / 16 * 4;
  for (uint32_t i = 0; i < N; ++i) out[i] = static_cast<int>((static_cast<uint32_t>(q[i]) >> shift & 15u) | (high >> i & 1u) << 4);
}

// f16 scale | 32 high bits | 16 bytes
struct Q5_0 {
  static constexpr uint32_t kElements = 32, kBytes = 22, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const float d = f16_at(block);
    int values[N];
    q5_values(block + 2, block + 6, first, values);
    for (uint32_t i = 0; i < N; ++i) out[i] = as_float(values[i] - 16) * d;
  }
};

// f16 scale | f16 minimum | 32 high bits | 16 bytes
struct Q5_1 {
  static constexpr uint32_t kElements = 32, kBytes = 24, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const float d = f16_at(block), m = f16_at(block + 2);
    int values[N];
    q5_values(block + 4, block + 8, first, values);
    for (uint32_t i = 0; i < N; ++i) out[i] = as_float(values[i]) * d + m;
  }
};

// f16 scale | 32 signed bytes
struct Q8_0 {
  static constexpr uint32_t kElements = 32, kBytes = 34, kAlike = 32;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const float d = f16_at(block);
    Bytes q = block + 2 + first;
    for (uint32_t i = 0; i < N; ++i) out[i] = as_float(static_cast<int8_t>(q[i])) * d;
  }
};

// 16 bytes of scale (low half) and minimum (high half) per 16 values | 64 bytes of four 2-bit values | f16 scale of scales | f16 scale of minima
struct Q2_K {
  static constexpr uint32_t kElements = 256, kBytes = 84, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const int scale = block[first / 16];
    const float by = f16_at(block + 80) * as_float(scale & 15), less = f16_at(block + 82) * as_float(scale >> 4);
    Bytes q = block + 16 + 32 * (first / 128) + first % 32;
    const uint32_t shift = first % 128 / 32 * 2;
    for (uint32_t i = 0; i < N; ++i) out[i] = by * as_float(q[i] >> shift & 3) - less;
  }
};

// 32 bytes of high bits, where 1 means that 4 is not subtracted | 64 bytes of four 2-bit values | 12 bytes of 16 scales of 6 bits | f16 scale
struct Q3_K {
  static constexpr uint32_t kElements = 256, kBytes = 110, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    Bytes packed = block + 96;
    const uint32_t at = first / 16;
    const int low = at < 8 ? packed[at] & 15 : packed[at - 8] >> 4;
    const float by = f16_at(block + 108) * as_float((low | (packed[8 + at % 4] >> at / 4 * 2 & 3) << 4) - 32);
    Bytes q = block + 32 + 32 * (first / 128) + first % 32, high = block + first % 32;
    const uint32_t shift = first % 128 / 32 * 2, high_shift = first / 32;
    for (uint32_t i = 0; i < N; ++i) out[i] = by * as_float((q[i] >> shift & 3) + (high[i] >> high_shift & 1) * 4 - 4);
  }
};

// Scale and minimum `at` of eight each, of 6 bits, in 12 bytes: the first four of each in the low bits of bytes 0 to 7, the others spread over the upper
// two bits of these and bytes 8 to 11.
struct ScaleAndMinimum {
  int scale, minimum;
  ScaleAndMinimum(Bytes packed, uint32_t at)
      : scale(at < 4 ? packed[at] & 63 : (packed[4 + at] & 15) | (packed[at - 4] >> 6) << 4),
        minimum(at < 4 ? packed[4 + at] & 63 : (packed[4 + at] >> 4) | (packed[at] >> 6) << 4) {}
};

// f16 scale of scales | f16 scale of minima | scales and minima | 128 bytes: 32 values in low halves, 32 in high halves, four times
struct Q4_K {
  static constexpr uint32_t kElements = 256, kBytes = 144, kAlike = 32;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const uint32_t at = first / 32, shift = at % 2 * 4;
    const ScaleAndMinimum packed(block + 4, at);
    const float by = f16_at(block) * as_float(packed.scale), less = f16_at(block + 2) * as_float(packed.minimum);
    Bytes q = block + 16 + 32 * (at / 2) + first % 32;
    for (uint32_t i = 0; i < N; ++i) out[i] = by * as_float(q[i] >> shift & 15) - less;
  }
};

// As Q4_K, with 32 bytes of high bits after the minima: bit b is that of the b-th 32 values.
struct Q5_K {
  static constexpr uint32_t kElements = 256, kBytes = 176, kAlike = 32;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const uint32_t at = first / 32, shift = at % 2 * 4;
    const ScaleAndMinimum packed(block + 4, at);
    const float by = f16_at(block) * as_float(packed.scale), less = f16_at(block + 2) * as_float(packed.minimum);
    Bytes high = block + 16 + first % 32, q = block + 48 + 32 * (at / 2) + first % 32;
    for (uint32_t i = 0; i < N; ++i) out[i] = by * as_float((q[i] >> shift & 15) | (high[i] >> at & 1) << 4) - less;
  }
};

// 128 bytes of low halves | 64 bytes of four 2-bit upper parts | 16 signed scales | f16 scale
struct Q6_K {
  static constexpr uint32_t kElements = 256, kBytes = 210, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const uint32_t upper = first / 128, part = first % 128 / 32, shift = part / 2 * 4, high_shift = part * 2;
    const float by = f16_at(block + 208) * as_float(static_cast<int8_t>(block[192 + first / 16]));
    Bytes q = block + 64 * upper + 32 * (part % 2) + first % 32, high = block + 128 + 32 * upper + first % 32;
    for (uint32_t i = 0; i < N; ++i) out[i] = by * as_float(((q[i] >> shift & 15) | (high[i] >> high_shift & 3) << 4) - 32);
  }
};

// The values of IQ4_NL and IQ4_XS are not evenly spaced.
inline constexpr HEDDLE_BLOCK_TABLE int8_t kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the 16 values of a 4-bit float with two bits of exponent and one of mantissa.
inline constexpr HEDDLE_BLOCK_TABLE int8_t kTwiceE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <uint32_t N>
inline void decode_by_table(HEDDLE_BLOCK_TABLE const int8_t (&table)[16], Bytes q, uint32_t shift, float by, Floats out) {
  for (uint32_t i = 0; i < N; ++i) out[i] = by * as_float(table[q[i] >> shift & 15]);
}

// f16 scale | 16 bytes
struct IQ4_NL {
  static constexpr uint32_t kElements = 32, kBytes = 18, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    decode_by_table<N>(kUneven, block + 2 + first % 16, first / 16 * 4, f16_at(block), out);
  }
};

// f16 scale | upper two bits of eight scales | lower four bits of these | 128 bytes
struct IQ4_XS {
  static constexpr uint32_t kElements = 256, kBytes = 136, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const uint32_t part = first / 32;
    const uint32_t scale = (block[4 + part / 2] >> 4 * (part % 2) & 15u) | (u16_at(block + 2) >> 2 * part & 3) << 4;
    const float by = f16_at(block) * as_float(static_cast<int>(scale) - 32);
    decode_by_table<N>(kUneven, block + 8 + 16 * part + first % 16, first % 32 / 16 * 4, by, out);
  }
};

// Exponent, of which half is taken since the table has twice the values | 16 bytes
struct MXFP4 {
  static constexpr uint32_t kElements = 32, kBytes = 17, kAlike = 16;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const uint32_t exponent = block[0], bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
    decode_by_table<N>(kTwiceE2M1, block + 1 + first % 16, first / 16 * 4, float_of_bits(bits), out);
  }
};

// Four scales as unsigned E4M3 | four times 8 bytes
struct NVFP4 {
  static constexpr uint32_t kElements = 64, kBytes = 36, kAlike = 8;
  template <uint32_t N>
  static void decode(Bytes block, uint32_t first, Floats out) {
    const uint32_t part = first / 16;
    const int code = block[part], exponent = code >> 3 & 15, mantissa = code & 7;
    float scale = exponent == 0 ? as_float(mantissa) * 0x1p-9f
                                : as_float(8 + mantissa) * float_of_bits(static_cast<uint32_t>(exponent - 10 + 127) << 23);
    if (code == 0x7F) scale = 0;  // no number
    decode_by_table<N>(kTwiceE2M1, block + 4 + 8 * part + first % 8, first % 16 / 8 * 4, scale * 0.5f, out);
  }
};

// X(Q4_0) and so on, for all types.
#define HEDDLE_BLOCK_TYPES(X) \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(IQ4_XS) X(MXFP4) X(NVFP4)

}  // namespace heddle::module::blocks
