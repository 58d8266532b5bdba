// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/stablehlo_attributes.h"

#include <algorithm>

#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace heddle::import::stablehlo {
namespace {

// The text behind '#stablehlo.' or between '#stablehlo<' and '>'; empty for another attribute.
StringRef own_text(Attribute attribute) {
  auto opaque = llvm::dyn_cast_or_null<OpaqueAttr>(attribute);
  if (!opaque) return {};
  const StringRef dialect = opaque.getDialectNamespace().getValue();
  if (dialect != "stablehlo" && dialect != "chlo" && dialect != "mhlo") return {};
  return opaque.getAttrData().trim();
}

// The inside of `kind<...>`.
std::optional<StringRef> inside(StringRef text, StringRef kind) {
  if (!text.consume_front(kind)) return {};
  text = text.trim();
  if (!text.consume_front("<") || !text.consume_back(">")) return {};
  return text.trim();
}

// The text up to the next comma that is in no bracket; removes it with the comma.
StringRef next_part(StringRef& rest) {
  int depth = 0;
  size_t end = 0;
  for (; end < rest.size(); ++end) {
    const char c = rest[end];
    if (c == '[' || c == '<' || c == '(' || c == '{') ++depth;
    if (c == ']' || c == '>' || c == ')' || c == '}') --depth;
    if (c == ',' && depth <= 0) break;
  }
  const StringRef part = rest.take_front(end).trim();
  rest = rest.drop_front(std::min(end + 1, rest.size()));
  return part;
}

std::optional<std::vector<int64_t>> read_integers(StringRef text) {
  std::vector<int64_t> values;
  text = text.trim();
  const bool is_list = text.consume_front("[");
  if (is_list && !text.consume_back("]")) return {};
  text = text.trim();
  if (is_list && text.empty()) return values;
  while (true) {
    const StringRef part = next_part(text);
    int64_t value = 0;
    if (part.getAsInteger(10, value)) return {};
    values.push_back(value);
    if (text.trim().empty()) return values;
    if (!is_list) return {};
  }
}

}  // namespace

std::string word_of(Attribute attribute) {
  if (auto text = llvm::dyn_cast_or_null<StringAttr>(attribute)) return text.getValue().str();
  const StringRef text = own_text(attribute);
  const size_t space = text.find(' ');
  return space == StringRef::npos || text.contains('<') ? std::string() : text.drop_front(space + 1).trim().str();
}

std::vector<int64_t> Fields::list(StringRef name) const {
  auto found = numbers.find(std::string_view(name.data(), name.size()));
  return found == numbers.end() ? std::vector<int64_t>() : found->second;
}

int64_t Fields::number(StringRef name, int64_t otherwise) const {
  const std::vector<int64_t> values = list(name);
  return values.size() == 1 ? values.front() : otherwise;
}

std::optional<Fields> fields_of(Attribute attribute, StringRef kind) {
  std::optional<StringRef> rest = inside(own_text(attribute), kind);
  if (!rest) return {};
  Fields fields;
  while (!rest->trim().empty()) {
    const auto [name, value] = next_part(*rest).split('=');
    const std::string key = name.trim().str();
    if (key.empty()) return {};
    if (std::optional<std::vector<int64_t>> values = read_integers(value)) {
      fields.numbers[key] = std::move(*values);
    } else {
      fields.texts[key] = value.trim().str();
    }
  }
  return fields;
}

namespace {

// "[b, 0, 1, f]": the position of each letter and number. False if one is missing, is there twice, or is unknown.
bool read_positions(StringRef text, int64_t rank, StringRef letters, int64_t* first, int64_t* second, std::vector<int64_t>& spatial) {
  text = text.trim();
  if (!text.consume_front("[") || !text.consume_back("]")) return false;
  spatial.assign(static_cast<size_t>(std::max<int64_t>(rank - 2, 0)), -1);
  int64_t position = 0;
  for (; !text.trim().empty(); ++position) {
    const StringRef part = next_part(text);
    int64_t number = 0;
    int64_t* place = nullptr;
    if (part.size() == 1 && part[0] == letters[0]) {
      place = first;
    } else if (part.size() == 1 && part[0] == letters[1]) {
      place = second;
    } else if (!part.getAsInteger(10, number) && number >= 0 && number < static_cast<int64_t>(spatial.size())) {
      place = &spatial[static_cast<size_t>(number)];
    }
    if (!place || *place != -1) return false;
    *place = position;
  }
  return position == rank;
}

}  // namespace

std::optional<ConvolutionDimensions> convolution_dimensions(Attribute attribute, int64_t rank) {
  ConvolutionDimensions all;
  std::optional<StringRef> text = inside(own_text(attribute), "conv");
  if (!text || rank < 2) return {};
  if (text->consume_front("raw")) {
    std::string named = ("conv<" + *text + ">").str();
    auto fields = fields_of(
        OpaqueAttr::get(StringAttr::get(attribute.getContext(), "stablehlo"), named, NoneType::get(attribute.getContext())), "conv");
    if (!fields) return {};
    all.input_batch = fields->number("input_batch_dimension", -1);
    all.input_feature = fields->number("input_feature_dimension", -1);
    all.input_spatial = fields->list("input_spatial_dimensions");
    all.kernel_input = fields->number("kernel_input_feature_dimension", -1);
    all.kernel_output = fields->number("kernel_output_feature_dimension", -1);
    all.kernel_spatial = fields->list("kernel_spatial_dimensions");
    all.output_batch = fields->number("output_batch_dimension", -1);
    all.output_feature = fields->number("output_feature_dimension", -1);
    all.output_spatial = fields->list("output_spatial_dimensions");
  } else {
    const auto [input, rest] = text->split("]x[");
    const auto [kernel, output] = rest.split("]->[");
    if (!read_positions((input + "]").str(), rank, "bf", &all.input_batch, &all.input_feature, all.input_spatial) ||
        !read_positions(("[" + kernel + "]").str(), rank, "io", &all.kernel_input, &all.kernel_output, all.kernel_spatial) ||
        !read_positions(("[" + output).str(), rank, "bf", &all.output_batch, &all.output_feature, all.output_spatial))
      return {};
  }
  auto is_permutation = [&](int64_t a, int64_t b, std::vector<int64_t> rest) {
    rest.insert(rest.end(), {a, b});
    std::sort(rest.begin(), rest.end());
    for (int64_t i = 0; i < rank; ++i) {
      if (static_cast<int64_t>(rest.size()) != rank || rest[static_cast<size_t>(i)] != i) return false;
    }
    return true;
  };
  if (!is_permutation(all.input_batch, all.input_feature, all.input_spatial) ||
      !is_permutation(all.kernel_input, all.kernel_output, all.kernel_spatial) ||
      !is_permutation(all.output_batch, all.output_feature, all.output_spatial))
    return {};
  return all;
}

}  // namespace heddle::import::stablehlo
