// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types and their names in NumPy and the buffer protocol.
#include <cstring>

#include "extension.h"

namespace heddle::python {
namespace {

constexpr ElementType kTypes[] = {
    {HEDDLE_TYPE_F32, "f32", "float32", "f"},
    {HEDDLE_TYPE_I64, "i64", "int64", "q"},
    {HEDDLE_TYPE_I32, "i32", "int32", "i"},
    {HEDDLE_TYPE_BOOL, "bool", "bool", "?"},
    {HEDDLE_TYPE_U8, "u8", "uint8", "B"},
    {HEDDLE_TYPE_I8, "i8", "int8", "b"},
    {HEDDLE_TYPE_F16, "f16", "float16", "e"},
    {HEDDLE_TYPE_BF16, "bf16", "bfloat16", nullptr},
    {HEDDLE_TYPE_F64, "f64", "float64", "d"},
    {HEDDLE_TYPE_I16, "i16", "int16", "h"},
    {HEDDLE_TYPE_U16, "u16", "uint16", "H"},
    {HEDDLE_TYPE_U32, "u32", "uint32", "I"},
    {HEDDLE_TYPE_U64, "u64", "uint64", "Q"},
    {HEDDLE_TYPE_F8E4M3, "f8e4m3", "float8_e4m3fn", nullptr},
    {HEDDLE_TYPE_F8E5M2, "f8e5m2", "float8_e5m2", nullptr},
    {HEDDLE_TYPE_I4, "i4", "int4", nullptr},
    {HEDDLE_TYPE_U4, "u4", "uint4", nullptr},
    {HEDDLE_TYPE_F8E4M3FNUZ, "f8e4m3fnuz", "float8_e4m3fnuz", nullptr},
    {HEDDLE_TYPE_F8E5M2FNUZ, "f8e5m2fnuz", "float8_e5m2fnuz", nullptr},
    {HEDDLE_TYPE_F8E8M0, "f8e8m0", "float8_e8m0fnu", nullptr},
    {HEDDLE_TYPE_F4E2M1, "f4e2m1", "float4_e2m1fn", nullptr},
    {HEDDLE_TYPE_I2, "i2", "int2", nullptr},
    {HEDDLE_TYPE_U2, "u2", "uint2", nullptr},
};

}  // namespace

const ElementType* element_type(heddle_element_type_t type) {
  for (const ElementType& one : kTypes) {
    if (one.type == type) return &one;
  }
  return nullptr;
}

const ElementType* element_type_of_format(const char* format, Py_ssize_t item_bytes) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;  // x86-64 is little-endian, and its types are aligned to their size
  if (format[0] == 0 || format[1] != 0) return nullptr;
  char letter = *format;
  if (letter == 'l') letter = item_bytes == 8 ? 'q' : 'i';
  if (letter == 'L') letter = item_bytes == 8 ? 'Q' : 'I';
  for (const ElementType& one : kTypes) {
    if (one.format && *one.format == letter && HEDDLE_TYPE_BITS(one.type) == 8 * static_cast<uint64_t>(item_bytes)) return &one;
  }
  return nullptr;
}

std::string type_text(heddle_element_type_t type, const int64_t* dims, uint32_t rank, const heddle_string_t* symbols) {
  const ElementType* known = element_type(type);
  std::string out = std::string(known ? known->name : "unknown") + '[';
  for (uint32_t i = 0; i < rank; ++i) {
    if (i > 0) out += ',';
    if (dims[i] >= 0) {
      out += std::to_string(dims[i]);
    } else {
      out += symbols && symbols[i].size != 0 ? std::string(view(symbols[i])) : "?";
    }
  }
  return out + ']';
}

}  // namespace heddle::python
