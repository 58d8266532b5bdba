// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of element types in safetensors files. Private to this directory's reader and writer of that format.
#pragma once

#include <string_view>

#include "heddle/types.h"

namespace heddle::module {

struct SafetensorsType {
  std::string_view name;
  uint32_t bits;
  heddle_element_type_t type;  // undefined if Heddle has no such type
};

inline constexpr SafetensorsType kSafetensorsTypes[] = {
    {"BOOL", 8, HEDDLE_TYPE_BOOL},
    {"F4", 4, HEDDLE_TYPE_UNDEFINED},
    {"F6_E2M3", 6, HEDDLE_TYPE_UNDEFINED},
    {"F6_E3M2", 6, HEDDLE_TYPE_UNDEFINED},
    {"U8", 8, HEDDLE_TYPE_U8},
    {"I8", 8, HEDDLE_TYPE_I8},
    {"F8_E5M2", 8, HEDDLE_TYPE_F8E5M2},
    {"F8_E4M3", 8, HEDDLE_TYPE_F8E4M3},
    {"F8_E8M0", 8, HEDDLE_TYPE_UNDEFINED},
    {"F8_E4M3FNUZ", 8, HEDDLE_TYPE_UNDEFINED},
    {"F8_E5M2FNUZ", 8, HEDDLE_TYPE_UNDEFINED},
    {"I16", 16, HEDDLE_TYPE_I16},
    {"U16", 16, HEDDLE_TYPE_U16},
    {"F16", 16, HEDDLE_TYPE_F16},
    {"BF16", 16, HEDDLE_TYPE_BF16},
    {"I32", 32, HEDDLE_TYPE_I32},
    {"U32", 32, HEDDLE_TYPE_U32},
    {"F32", 32, HEDDLE_TYPE_F32},
    {"C64", 64, HEDDLE_TYPE_UNDEFINED},
    {"F64", 64, HEDDLE_TYPE_F64},
    {"I64", 64, HEDDLE_TYPE_I64},
    {"U64", 64, HEDDLE_TYPE_U64},
};

// Null for a name that the format does not define.
inline const SafetensorsType* safetensors_type(std::string_view name) {
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

// Empty for a type that the format does not define.
inline std::string_view safetensors_dtype(heddle_element_type_t element_type) {
  for (const SafetensorsType& type : kSafetensorsTypes) {
    if (type.type == element_type && element_type != HEDDLE_TYPE_UNDEFINED) return type.name;
  }
  return {};
}

}  // namespace heddle::module
