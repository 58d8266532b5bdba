// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes as text; the names of element types are those of sdk/module.
#include "tools/heddle/shape_text.h"

#include <algorithm>
#include <charconv>

#include "sdk/module/element_types.h"

namespace heddle::tool {

std::string shape_text(const Shape& shape) {
  return module::shape_text(shape.element_type, shape.dims);
}

Wrong parse_shape(std::string_view text, Shape& out) {
  const std::string whole = "'" + std::string(text) + "'";
  out = Shape{};
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc()) return whole + ": an extent does not fit into 63 bits";
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty() || text[0] != 'x') return whole + ": expected dimensions and a type, as in 2x3xf32";
    text.remove_prefix(1);
    if (out.dims.size() == HEDDLE_MAX_RANK) return whole + ": more than 16 dimensions";
    out.dims.push_back(extent);
  }
  out.element_type = module::element_type_from_name(text);
  if (out.element_type == HEDDLE_TYPE_UNDEFINED)
    return whole + ": '" + std::string(text) + "' is not an element type; expected f32, i64, bool, ...";
  return {};
}

std::optional<uint64_t> element_count(const Shape& shape) {
  if (std::find(shape.dims.begin(), shape.dims.end(), 0) != shape.dims.end()) return 0;
  int64_t count = 1;
  for (int64_t extent : shape.dims) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return static_cast<uint64_t>(count);
}

std::optional<uint64_t> byte_count(const Shape& shape) {
  return module::tensor_bytes(HEDDLE_TYPE_BITS(shape.element_type), shape.dims);
}

}  // namespace heddle::tool
