// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .npy: magic, version, header length, a Python dict literal of three keys, data.
#include "sdk/module/npy_header.h"

namespace heddle::module {

namespace {

struct NpyType {
  std::string_view code;
  heddle_element_type_t type;
};
constexpr NpyType kTypes[] = {
    {"|b1", HEDDLE_TYPE_BOOL}, {"|i1", HEDDLE_TYPE_I8},  {"|u1", HEDDLE_TYPE_U8},  {"<i2", HEDDLE_TYPE_I16},
    {"<u2", HEDDLE_TYPE_U16},  {"<i4", HEDDLE_TYPE_I32}, {"<u4", HEDDLE_TYPE_U32}, {"<i8", HEDDLE_TYPE_I64},
    {"<u8", HEDDLE_TYPE_U64},  {"<f2", HEDDLE_TYPE_F16}, {"<f4", HEDDLE_TYPE_F32}, {"<f8", HEDDLE_TYPE_F64},
};

}  // namespace

std::string_view npy_type_code(heddle_element_type_t type) {
  for (const NpyType& one : kTypes) {
    if (one.type == type) return one.code;
  }
  return {};
}

heddle_element_type_t npy_type_from_code(std::string_view code) {
  for (const NpyType& one : kTypes) {
    if (code.size() == 3 && code.substr(1) == one.code.substr(1) && (code[0] == one.code[0] || code[0] == '<' || code[0] == '='))
      return one.type;
  }
  return HEDDLE_TYPE_UNDEFINED;
}

std::string npy_header(heddle_element_type_t type, std::span<const int64_t> dims) {
  std::string dict = "{'descr': '" + std::string(npy_type_code(type)) + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < dims.size(); ++i) {
    dict.append(std::to_string(dims[i]));
    dict.append(i + 1 < dims.size() ? ", " : dims.size() == 1 ? "," : "");
  }
  dict += "), }";
  // Data starts on 64 bytes; the header ends in a newline.
  const size_t before = kNpyMagic.size() + 4;
  const size_t total = (before + dict.size() + 1 + 63) / 64 * 64;
  dict.append(total - before - dict.size() - 1, ' ').push_back('\n');
  std::string head(kNpyMagic);
  head.push_back(1);
  head.push_back(0);
  head.push_back(static_cast<char>(dict.size() & 255));
  head.push_back(static_cast<char>(dict.size() >> 8));
  return head + dict;
}

}  // namespace heddle::module
