// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that a compiler can vectorize, for the types of large files; other types are converted element by element.
#include "tools/params/element_blocks.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "tools/heddle/float_formats.h"

namespace heddle::tool {
namespace {

template <typename T>
void decode_as(const std::byte* bytes, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(value);
  }
}

void decode_bytes(const FloatFormat& format, const std::byte* bytes, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = decode_float(static_cast<uint32_t>(bytes[i]), format);
}

// The upper half of an f32, rounded; a NaN stays a NaN.
uint16_t bf16_of(double value) {
  const float narrow = static_cast<float>(value);
  if (std::isnan(narrow)) return static_cast<uint16_t>(encode_float(value, kBF16));
  uint32_t bits = std::bit_cast<uint32_t>(narrow);
  // Rounding twice could give another result than rounding once. So an inexact f32 is rounded to the neighbor whose last bit is 1, which the second
  // rounding never takes for a tie.
  if (static_cast<double>(narrow) != value) {
    bits -= std::fabs(static_cast<double>(narrow)) > std::fabs(value);
    bits |= 1;
  }
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <typename T, typename Convert>
void encode_as(std::span<const double> values, std::byte* out, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = convert(values[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

bool is_float(heddle_element_type_t type) {
  return type == HEDDLE_TYPE_F64 || type == HEDDLE_TYPE_F32 || type == HEDDLE_TYPE_F16 || type == HEDDLE_TYPE_BF16 ||
         (HEDDLE_TYPE_BITS(type) == 8 && short_format(type) != nullptr);
}

void decode_block(heddle_element_type_t type, const std::byte* bytes, std::span<double> out) {
  switch (type) {
    case HEDDLE_TYPE_F64:
      return decode_as<double>(bytes, out);
    case HEDDLE_TYPE_F32:
      return decode_as<float>(bytes, out);
    case HEDDLE_TYPE_F16:
      return decode_as<_Float16>(bytes, out);
    case HEDDLE_TYPE_BF16:
      for (size_t i = 0; i < out.size(); ++i) {
        uint16_t upper;
        std::memcpy(&upper, bytes + i * 2, 2);
        out[i] = static_cast<double>(std::bit_cast<float>(uint32_t{upper} << 16));
      }
      return;
    default:
      return decode_bytes(*short_format(type), bytes, out);
  }
}

void encode_block(heddle_element_type_t type, std::span<const double> values, std::byte* out) {
  if (type == HEDDLE_TYPE_F64) {
    encode_as<double>(values, out, [](double value) { return value; });
  } else if (type == HEDDLE_TYPE_F32) {
    encode_as<float>(values, out, [](double value) { return static_cast<float>(value); });
  } else if (type == HEDDLE_TYPE_F16) {
    encode_as<_Float16>(values, out, [](double value) { return static_cast<_Float16>(value); });
  } else {
    encode_as<uint16_t>(values, out, bf16_of);
  }
}

double overflow_limit(heddle_element_type_t type) {
  if (type == HEDDLE_TYPE_F64) return HUGE_VAL;
  return type == HEDDLE_TYPE_F16 ? 65520 : std::ldexp(type == HEDDLE_TYPE_F32 ? 2 - 0x1p-24 : 2 - 0x1p-8, 127);
}

}  // namespace heddle::tool
