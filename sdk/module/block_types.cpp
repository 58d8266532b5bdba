// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One function per type, with inner loops over 16 or 32 values that a compiler vectorizes. A K type has blocks of 256 values ("super-blocks"), in
// which each 16 or 32 values have a scale of their own. The arithmetic is that of the format's definition, in f32 and in its order, so that values
// are equal bit by bit; therefore this file is compiled without contraction of multiplications and additions.
#include "sdk/module/block_types.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

namespace heddle::module {
namespace {

float f16_at(const uint8_t* bytes) {
  const uint32_t half = static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
  const uint32_t sign = (half & 0x8000) << 16, rest = half & 0x7FFF;
  if (rest >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | (rest & 0x3FF) << 13);
  // Exact also for subnormals: their bits as an f32 that is too small by 2^112.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f));
}

uint32_t u16_at(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
}

float as_float(int value) {
  return static_cast<float>(value);
}

// f16 scale | 16 bytes: low halves are values 0 to 15, high halves 16 to 31
void decode_q4_0(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 18, out += 32) {
    const float d = f16_at(block);
    const uint8_t* q = block + 2;
    for (int i = 0; i < 16; ++i) out[i] = as_float((q[i] & 15) - 8) * d;
    for (int i = 0; i < 16; ++i) out[16 + i] = as_float((q[i] >> 4) - 8) * d;
  }
}

// f16 scale | f16 minimum | 16 bytes
void decode_q4_1(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 20, out += 32) {
    const float d = f16_at(block), m = f16_at(block + 2);
    const uint8_t* q = block + 4;
    for (int i = 0; i < 16; ++i) out[i] = as_float(q[i] & 15) * d + m;
    for (int i = 0; i < 16; ++i) out[16 + i] = as_float(q[i] >> 4) * d + m;
  }
}

// Bit 4 of all 32 values is in `high`, that of value i in bit i.
void q5_values(const uint8_t* high_bytes, const uint8_t* q, int (&out)[32]) {
  const uint32_t high = u16_at(high_bytes) | u16_at(high_bytes + 2) << 16;
  for (uint32_t i = 0; i < 16; ++i) out[i] = static_cast<int>((q[i] & 15u) | (high >> i & 1) << 4);
  for (uint32_t i = 0; i < 16; ++i) out[16 + i] = static_cast<int>((q[i] >> 4u) | (high >> (16 + i) & 1) << 4);
}

// f16 scale | 32 high bits | 16 bytes
void decode_q5_0(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 22, out += 32) {
    const float d = f16_at(block);
    int values[32];
    q5_values(block + 2, block + 6, values);
    for (int i = 0; i < 32; ++i) out[i] = as_float(values[i] - 16) * d;
  }
}

// f16 scale | f16 minimum | 32 high bits | 16 bytes
void decode_q5_1(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 24, out += 32) {
    const float d = f16_at(block), m = f16_at(block + 2);
    int values[32];
    q5_values(block + 4, block + 8, values);
    for (int i = 0; i < 32; ++i) out[i] = as_float(values[i]) * d + m;
  }
}

// f16 scale | 32 signed bytes
void decode_q8_0(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 34, out += 32) {
    const float d = f16_at(block);
    const uint8_t* q = block + 2;
    for (int i = 0; i < 32; ++i) out[i] = as_float(static_cast<int8_t>(q[i])) * d;
  }
}

// 16 bytes of scale (low half) and minimum (high half) per 16 values | 64 bytes of four 2-bit values | f16 scale of scales | f16 scale of minima
void decode_q2_k(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 84) {
    const float d = f16_at(block + 80), m = f16_at(block + 82);
    const uint8_t* scale = block;
    for (int half = 0; half < 2; ++half) {
      const uint8_t* q = block + 16 + 32 * half;
      for (int shift = 0; shift < 8; shift += 2) {
        for (int side = 0; side < 2; ++side, ++scale, out += 16) {
          const float by = d * as_float(*scale & 15), less = m * as_float(*scale >> 4);
          for (int i = 0; i < 16; ++i) out[i] = by * as_float(q[16 * side + i] >> shift & 3) - less;
        }
      }
    }
  }
}

// 32 bytes of high bits, where 1 means that 4 is not subtracted | 64 bytes of four 2-bit values | 12 bytes of 16 scales of 6 bits | f16 scale
void decode_q3_k(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 110) {
    const float d = f16_at(block + 108);
    const uint8_t* packed = block + 96;
    int scales[16];
    for (int i = 0; i < 16; ++i) {
      const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
      scales[i] = (low | (packed[8 + i % 4] >> 2 * (i / 4) & 3) << 4) - 32;
    }
    const int* scale = scales;
    for (int half = 0; half < 2; ++half) {
      const uint8_t* q = block + 32 + 32 * half;
      for (int part = 0; part < 4; ++part) {
        for (int side = 0; side < 2; ++side, ++scale, out += 16) {
          const float by = d * as_float(*scale);
          const uint8_t* high = block + 16 * side;
          for (int i = 0; i < 16; ++i) {
            const int value = (q[16 * side + i] >> 2 * part & 3) + ((high[i] >> (4 * half + part) & 1) << 2) - 4;
            out[i] = by * as_float(value);
          }
        }
      }
    }
  }
}

// Eight scales and eight minima of 6 bits in 12 bytes: the first four of each in the low bits of bytes 0 to 7, the others spread over the upper two
// bits of these and bytes 8 to 11.
void scales_and_minima(const uint8_t* packed, int (&scales)[8], int (&minima)[8]) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = packed[i] & 63;
    minima[i] = packed[4 + i] & 63;
    scales[4 + i] = (packed[8 + i] & 15) | (packed[i] >> 6) << 4;
    minima[4 + i] = (packed[8 + i] >> 4) | (packed[4 + i] >> 6) << 4;
  }
}

// f16 scale of scales | f16 scale of minima | scales and minima | 128 bytes: 32 values in low halves, 32 in high halves, four times
void decode_q4_k(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 144) {
    const float d = f16_at(block), m = f16_at(block + 2);
    int scales[8], minima[8];
    scales_and_minima(block + 4, scales, minima);
    const uint8_t* q = block + 16;
    for (int part = 0; part < 4; ++part, q += 32, out += 64) {
      const float by0 = d * as_float(scales[2 * part]), less0 = m * as_float(minima[2 * part]);
      const float by1 = d * as_float(scales[2 * part + 1]), less1 = m * as_float(minima[2 * part + 1]);
      for (int i = 0; i < 32; ++i) out[i] = by0 * as_float(q[i] & 15) - less0;
      for (int i = 0; i < 32; ++i) out[32 + i] = by1 * as_float(q[i] >> 4) - less1;
    }
  }
}

// As Q4_K, with 32 bytes of high bits after the minima: bit b is that of the b-th 32 values.
void decode_q5_k(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 176) {
    const float d = f16_at(block), m = f16_at(block + 2);
    int scales[8], minima[8];
    scales_and_minima(block + 4, scales, minima);
    const uint8_t *high = block + 16, *q = block + 48;
    for (int part = 0; part < 4; ++part, q += 32, out += 64) {
      const float by0 = d * as_float(scales[2 * part]), less0 = m * as_float(minima[2 * part]);
      const float by1 = d * as_float(scales[2 * part + 1]), less1 = m * as_float(minima[2 * part + 1]);
      for (int i = 0; i < 32; ++i) out[i] = by0 * as_float((q[i] & 15) | (high[i] >> 2 * part & 1) << 4) - less0;
      for (int i = 0; i < 32; ++i) out[32 + i] = by1 * as_float((q[i] >> 4) | (high[i] >> (2 * part + 1) & 1) << 4) - less1;
    }
  }
}

// 128 bytes of low halves | 64 bytes of four 2-bit upper parts | 16 signed scales | f16 scale
void decode_q6_k(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 210) {
    const float d = f16_at(block + 208);
    for (int half = 0; half < 2; ++half) {
      const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half, *scale = block + 192 + 8 * half;
      for (int part = 0; part < 4; ++part) {
        const uint8_t* q = low + 32 * (part % 2);
        const int shift = part < 2 ? 0 : 4;
        for (int side = 0; side < 2; ++side, out += 16) {
          const float by = d * as_float(static_cast<int8_t>(scale[2 * part + side]));
          for (int i = 0; i < 16; ++i) {
            const int at = 16 * side + i;
            out[i] = by * as_float(((q[at] >> shift & 15) | (high[at] >> 2 * part & 3) << 4) - 32);
          }
        }
      }
    }
  }
}

// The values of IQ4_NL and IQ4_XS are not evenly spaced.
constexpr int8_t kUneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// Twice the 16 values of a 4-bit float with two bits of exponent and one of mantissa.
constexpr int8_t kTwiceE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void decode_by_table(const int8_t (&table)[16], const uint8_t* q, int pairs, float by, float* out) {
  for (int i = 0; i < pairs; ++i) out[i] = by * as_float(table[q[i] & 15]);
  for (int i = 0; i < pairs; ++i) out[pairs + i] = by * as_float(table[q[i] >> 4]);
}

// f16 scale | 16 bytes
void decode_iq4_nl(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 18, out += 32) decode_by_table(kUneven, block + 2, 16, f16_at(block), out);
}

// f16 scale | upper two bits of eight scales | lower four bits of these | 128 bytes
void decode_iq4_xs(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 136) {
    const float d = f16_at(block);
    const uint32_t upper = u16_at(block + 2);
    for (uint32_t part = 0; part < 8; ++part, out += 32) {
      const uint32_t scale = (block[4 + part / 2] >> 4 * (part % 2) & 15u) | (upper >> 2 * part & 3) << 4;
      decode_by_table(kUneven, block + 8 + 16 * part, 16, d * as_float(static_cast<int>(scale) - 32), out);
    }
  }
}

// Exponent, of which half is taken since the table has twice the values | 16 bytes
void decode_mxfp4(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 17, out += 32) {
    const uint32_t exponent = block[0];
    const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
    decode_by_table(kTwiceE2M1, block + 1, 16, std::bit_cast<float>(bits), out);
  }
}

// Four scales as unsigned E4M3 | four times 8 bytes
void decode_nvfp4(const uint8_t* block, size_t count, float* out) {
  for (; count-- > 0; block += 36) {
    for (int part = 0; part < 4; ++part, out += 16) {
      const int code = block[part], exponent = code >> 3 & 15, mantissa = code & 7;
      float scale = exponent == 0 ? as_float(mantissa) * 0x1p-9f
                                  : as_float(8 + mantissa) * std::bit_cast<float>(static_cast<uint32_t>(exponent - 10 + 127) << 23);
      if (code == 0x7F) scale = 0;  // no number
      decode_by_table(kTwiceE2M1, block + 4 + 8 * part, 8, scale * 0.5f, out);
    }
  }
}

constexpr BlockType kTypes[] = {
    {"Q4_0", 32, 18, decode_q4_0},   {"Q4_1", 32, 20, decode_q4_1},       {"Q5_0", 32, 22, decode_q5_0},
    {"Q5_1", 32, 24, decode_q5_1},   {"Q8_0", 32, 34, decode_q8_0},       {"Q8_1", 32, 40, nullptr},
    {"Q2_K", 256, 84, decode_q2_k},  {"Q3_K", 256, 110, decode_q3_k},     {"Q4_K", 256, 144, decode_q4_k},
    {"Q5_K", 256, 176, decode_q5_k}, {"Q6_K", 256, 210, decode_q6_k},     {"Q8_K", 256, 292, nullptr},
    {"IQ2_XXS", 256, 66, nullptr},   {"IQ2_XS", 256, 74, nullptr},        {"IQ3_XXS", 256, 98, nullptr},
    {"IQ1_S", 256, 50, nullptr},     {"IQ4_NL", 32, 18, decode_iq4_nl},   {"IQ3_S", 256, 110, nullptr},
    {"IQ2_S", 256, 82, nullptr},     {"IQ4_XS", 256, 136, decode_iq4_xs}, {"IQ1_M", 256, 56, nullptr},
    {"TQ1_0", 256, 54, nullptr},     {"TQ2_0", 256, 66, nullptr},         {"MXFP4", 32, 17, decode_mxfp4},
    {"NVFP4", 64, 36, decode_nvfp4}, {"Q1_0", 128, 18, nullptr},
};

// Without branches, so that it is vectorized. A NaN stays a NaN.
uint16_t to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  const uint32_t normal = (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  // The addition rounds to a multiple of 2^-24, the smallest f16.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  uint32_t out = magnitude < (113u << 23) ? small : normal;
  out = magnitude >= (143u << 23) ? 0x7C00 : out;
  out = magnitude > 0x7F800000 ? 0x7E00 : out;
  return static_cast<uint16_t>(sign | out);
}

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
  return static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

template <typename Round>
void store_short(const float* values, size_t count, std::byte* out, Round round) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t narrow = round(values[i]);
    std::memcpy(out + 2 * i, &narrow, 2);
  }
}

}  // namespace

const BlockType* block_type(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const BlockType& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

bool decodes_to(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_F32 || type == HEDDLE_TYPE_F16 || type == HEDDLE_TYPE_BF16;
}

void decode_blocks(const BlockType& block, const std::byte* blocks, size_t count, heddle_element_type_t type, std::byte* out) {
  float values[4 * kMostBlockElements];  // stays in the first-level cache
  const size_t most = std::size(values) / block.elements, width = type == HEDDLE_TYPE_F32 ? 4 : 2;
  while (count > 0) {
    const size_t now = std::min(count, most), elements = now * block.elements;
    block.decode(reinterpret_cast<const uint8_t*>(blocks), now, values);
    if (type == HEDDLE_TYPE_F32) {
      std::memcpy(out, values, elements * 4);
    } else if (type == HEDDLE_TYPE_F16) {
      store_short(values, elements, out, to_f16);
    } else {
      store_short(values, elements, out, to_bf16);
    }
    blocks += now * block.bytes;
    out += elements * width;
    count -= now;
  }
}

}  // namespace heddle::module
