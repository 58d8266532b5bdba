// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of element types. Depends on types.h only.
#include "sdk/module/element_types.h"

namespace heddle::module {
namespace {

struct Named {
  heddle_element_type_t type;
  std::string_view name;
};

constexpr Named kTypes[] = {
    {HEDDLE_TYPE_BOOL, "bool"},
    {HEDDLE_TYPE_I4, "i4"},
    {HEDDLE_TYPE_U4, "u4"},
    {HEDDLE_TYPE_I8, "i8"},
    {HEDDLE_TYPE_U8, "u8"},
    {HEDDLE_TYPE_I16, "i16"},
    {HEDDLE_TYPE_U16, "u16"},
    {HEDDLE_TYPE_I32, "i32"},
    {HEDDLE_TYPE_U32, "u32"},
    {HEDDLE_TYPE_I64, "i64"},
    {HEDDLE_TYPE_U64, "u64"},
    {HEDDLE_TYPE_F16, "f16"},
    {HEDDLE_TYPE_BF16, "bf16"},
    {HEDDLE_TYPE_F32, "f32"},
    {HEDDLE_TYPE_F64, "f64"},
    {HEDDLE_TYPE_F8E4M3, "f8e4m3"},
    {HEDDLE_TYPE_F8E5M2, "f8e5m2"},
    {HEDDLE_TYPE_F8E4M3FNUZ, "f8e4m3fnuz"},
    {HEDDLE_TYPE_F8E5M2FNUZ, "f8e5m2fnuz"},
    {HEDDLE_TYPE_F8E8M0, "f8e8m0"},
    {HEDDLE_TYPE_F4E2M1, "f4e2m1"},
    {HEDDLE_TYPE_I2, "i2"},
    {HEDDLE_TYPE_U2, "u2"},
};

}  // namespace

bool element_type_exists(heddle_element_type_t type) {
  for (const Named& named : kTypes) {
    if (named.type == type) return true;
  }
  return false;
}

std::string_view element_type_name(heddle_element_type_t type) {
  for (const Named& named : kTypes) {
    if (named.type == type) return named.name;
  }
  return "undefined";
}

std::vector<std::string> element_type_names() {
  std::vector<std::string> names;
  for (const Named& named : kTypes) names.emplace_back(named.name);
  return names;
}

heddle_element_type_t element_type_from_name(std::string_view name) {
  for (const Named& named : kTypes) {
    if (named.name == name) return named.type;
  }
  return HEDDLE_TYPE_UNDEFINED;
}

std::optional<uint64_t> tensor_bytes(uint32_t bits_per_element, std::span<const int64_t> dims) {
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) empty = true;
  }
  if (empty) return 0;  // before multiplying: 0 x 2^40 x 2^40 is a valid, empty tensor
  int64_t bits = bits_per_element;
  for (int64_t dim : dims) {
    if (__builtin_mul_overflow(bits, dim, &bits)) return std::nullopt;
  }
  return (static_cast<uint64_t>(bits) + 7) / 8;
}

std::string type_text(std::string_view element_type, std::span<const std::string> extents) {
  std::string out(element_type);
  out += '[';
  for (size_t i = 0; i < extents.size(); ++i) {
    if (i > 0) out += ',';
    out += extents[i];
  }
  out += ']';
  return out;
}

std::string shape_text(heddle_element_type_t type, std::span<const int64_t> dims) {
  std::vector<std::string> extents;
  extents.reserve(dims.size());
  for (int64_t dim : dims) extents.push_back(dim < 0 ? "?" : std::to_string(dim));
  return type_text(element_type_name(type), extents);
}

}  // namespace heddle::module
