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

namespace {

constexpr const char kExpected[] = ": expected an element type and extents, as in 'f32[2,3]'";

Wrong add_extent(std::string_view digits, Shape& out) {
  int64_t extent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), extent);
  if (error != std::errc()) return ": an extent does not fit into 63 bits";
  if (out.dims.size() == HEDDLE_MAX_RANK) return ": more than " + std::to_string(HEDDLE_MAX_RANK) + " dimensions";
  out.dims.push_back(extent);
  return {};
}

std::string_view take_digits(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  text.remove_prefix(digits.size());
  return digits;
}

// "2,3]", what follows the opening bracket.
Wrong parse_extents(std::string_view text, Shape& out) {
  if (text == "]") return {};
  while (true) {
    const std::string_view rest = text, digits = take_digits(text);
    if (text.empty()) return kExpected;
    if (digits.empty() || (text[0] != ',' && text[0] != ']'))
      return ": '" + std::string(rest.substr(0, rest.find_first_of(",]"))) + "' is not an extent; expected a number";
    if (Wrong wrong = add_extent(digits, out); !wrong.empty()) return wrong;
    if (text == "]") return {};
    if (text[0] == ']') return kExpected;
    text.remove_prefix(1);
  }
}

}  // namespace

Wrong parse_shape(std::string_view text, Shape& out) {
  const std::string whole = "'" + std::string(text) + "'";
  out = Shape{};
  const size_t bracket = text.find('[');
  if (bracket != std::string_view::npos) {
    if (Wrong wrong = parse_extents(text.substr(bracket + 1), out); !wrong.empty()) return whole + wrong;
    text = text.substr(0, bracket);
  }
  while (bracket == std::string_view::npos && !text.empty() && text[0] >= '0' && text[0] <= '9') {
    const std::string_view digits = take_digits(text);
    if (text.empty() || text[0] != 'x') return whole + kExpected;
    text.remove_prefix(1);
    if (Wrong wrong = add_extent(digits, out); !wrong.empty()) return whole + wrong;
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
