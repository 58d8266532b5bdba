// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor types as text: "f32[2,3]". Used by every command that names a tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/types.h"

namespace heddle::tool {

// An error text for people; empty means success.
using Wrong = std::string;

struct Shape {
  heddle_element_type_t element_type = HEDDLE_TYPE_UNDEFINED;
  std::vector<int64_t> dims;
};

// "f32[2,3]"; a negative extent is "?".
std::string shape_text(const Shape& shape);
// Parses "f32[2,3]", or "2x3xf32", which needs no quotes in a shell; a scalar is "f32[]" or "f32". Extents are at least 0, the rank is at most
// HEDDLE_MAX_RANK.
Wrong parse_shape(std::string_view text, Shape& out);
// Empty if the number does not fit into 63 bits.
std::optional<uint64_t> element_count(const Shape& shape);
// Bytes of a dense tensor; sub-byte types are packed and rounded up.
std::optional<uint64_t> byte_count(const Shape& shape);

}  // namespace heddle::tool
