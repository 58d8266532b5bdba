// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about HEDDLE_TYPE_*: which types exist, their names, and the size of a tensor. Used by the verifier, by the parameter formats and by
// the core for shapes in error texts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/types.h"

namespace heddle::module {

bool element_type_exists(heddle_element_type_t type);
// "f32", "bf16", "bool", ...; "undefined" for a type that does not exist.
std::string_view element_type_name(heddle_element_type_t type);
std::vector<std::string> element_type_names();
// HEDDLE_TYPE_UNDEFINED for any other name.
heddle_element_type_t element_type_from_name(std::string_view name);
// Bytes of a dense tensor, with sub-byte types packed and rounded up to a byte; empty if a dimension is negative or the size in bits
// does not fit into 63 bits.
std::optional<uint64_t> tensor_bytes(uint32_t bits_per_element, std::span<const int64_t> dims);
// The notation of tensor types in all output for people: "f32[batch,3]", and "f32[]" for a scalar. Extents are numbers or names of symbols.
std::string type_text(std::string_view element_type, std::span<const std::string> extents);
// "f32[2,3]"; negative dimensions as "?".
std::string shape_text(heddle_element_type_t type, std::span<const int64_t> dims);

}  // namespace heddle::module
