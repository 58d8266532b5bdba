// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LabelEncoder and CategoryMapper of ai.onnx.ml: a map from numbers or strings to numbers or strings, as comparisons of each number with each key, or places of strings.
#include <cmath>

#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_scores.h"
#include "compiler/import/onnx_text.h"

using namespace mlir;

namespace heddle::import {
namespace {

// The keys or the values of a map: integers, floats, or strings, which have no element type.
struct MapSide {
  Type element = {};
  std::vector<int64_t> integers = {};
  std::vector<double> floats = {};
  std::vector<std::string> strings = {};
  bool is_text() const { return !element; }
  size_t size() const { return is_text() ? strings.size() : llvm::isa<FloatType>(element) ? floats.size() : integers.size(); }
};

MapSide side_of_tensor(Node& node, const onnx::TensorProto& tensor, const std::string& name) {
  MapSide numbers;
  if (tensor.data_type() == onnx::TensorProto::STRING) {
    numbers.strings.assign(tensor.string_data().begin(), tensor.string_data().end());
    return numbers;
  }
  numbers.element = element_type(node.builder.getContext(), tensor.data_type(), node.describe());
  const Operand stored = node.graph.import_tensor(tensor, node.output(0) + "." + name, node.location(), /*is_attribute=*/true);
  DenseElementsAttr elements = stored.value ? known_elements(stored.value) : DenseElementsAttr();
  if (!elements) node.fail("attribute '" + name + "' has too many elements", HEDDLE_STATUS_UNIMPLEMENTED);
  for (Attribute element : elements.getValues<Attribute>()) {
    if (auto real = llvm::dyn_cast<FloatAttr>(element)) {
      numbers.floats.push_back(real.getValueAsDouble());
    } else {
      const APInt value = llvm::cast<IntegerAttr>(element).getValue();
      numbers.integers.push_back(numbers.element.isUnsignedInteger() ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue());
    }
  }
  return numbers;
}

MapSide map_side(Node& node, const std::string& side) {
  const std::string as_tensor = side + "_tensor", integers = side + "_int64s", floats = side + "_floats", strings = side + "_strings";
  if (const onnx::TensorProto* tensor = node.tensor(as_tensor.c_str())) return side_of_tensor(node, *tensor, as_tensor);
  if (node.has_attribute(integers.c_str())) return {node.builder.getI64Type(), node.integer_list(integers.c_str())};
  if (node.has_attribute(floats.c_str())) return {node.builder.getF32Type(), {}, node.number_list(floats.c_str())};
  if (!node.has_attribute(strings.c_str())) node.fail("it has no " + side);
  return {{}, {}, {}, node.text_list(strings.c_str())};
}

// Version 1: strings become their positions in a list, or positions become the strings.
std::pair<MapSide, MapSide> map_of_classes(Node& node) {
  MapSide classes{{}, {}, {}, node.text_list("classes_strings")}, places{node.builder.getI64Type()};
  for (size_t i = 0; i < classes.size(); ++i) places.integers.push_back(static_cast<int64_t>(i));
  return node.is_text(0) ? std::pair(classes, places) : std::pair(places, classes);
}

// CategoryMapper: between strings and integers, in the direction of the input.
std::pair<MapSide, MapSide> map_of_categories(Node& node) {
  MapSide strings{{}, {}, {}, node.text_list("cats_strings")}, integers{node.builder.getI64Type(), node.integer_list("cats_int64s")};
  return node.is_text(0) ? std::pair(strings, integers) : std::pair(integers, strings);
}

Value constant_of(Node& node, const MapSide& side) {
  if (side.is_text())
    return text_constant(node.builder, side.strings, {static_cast<int64_t>(side.size())}, node.describe(), node.location());
  const RankedTensorType type = RankedTensorType::get(static_cast<int64_t>(side.size()), side.element);
  SmallVector<Attribute> elements;
  for (double one : side.floats) elements.push_back(node.builder.getFloatAttr(side.element, one));
  for (int64_t one : side.integers) elements.push_back(node.builder.getIntegerAttr(side.element, one));
  return node.builder.create<tx::ConstantOp>(node.location(), type, DenseElementsAttr::get(type, elements));
}

// The value of what is no key, behind the values.
void add_default(Node& node, MapSide& values) {
  if (const onnx::TensorProto* tensor = node.tensor("default_tensor")) {
    const MapSide last = side_of_tensor(node, *tensor, "default_tensor");
    if (last.size() != 1 || last.element != values.element) node.fail("default_tensor is not one element of the values' type");
    llvm::append_range(values.integers, last.integers);
    llvm::append_range(values.floats, last.floats);
    llvm::append_range(values.strings, last.strings);
  } else if (values.is_text()) {
    values.strings.push_back(node.text("default_string", "_Unused"));
  } else if (llvm::isa<FloatType>(values.element)) {
    values.floats.push_back(node.number("default_float", -0.0));
  } else {
    values.integers.push_back(node.integer("default_int64", -1));
  }
}

// Whether each number of the input is each of the keys, which are along a new last dimension.
Value is_each_key(Node& node, Value input, const MapSide& keys) {
  const Arithmetic a(node);
  Extents whole = Node::extents_of(input);
  const auto last = static_cast<int64_t>(whole.size());
  SmallVector<int64_t> own;
  for (int64_t i = 0; i < last; ++i) own.push_back(i);
  whole.push_back(node.builder.getAffineConstantExpr(static_cast<int64_t>(keys.size())));
  Value each = a.spread(input, whole, own), key = a.spread(constant_of(node, keys), whole, {last});
  Value is_key = a.compare(tx::CompareKind::eq, each, key);
  if (node.opset() < 4 || llvm::none_of(keys.floats, [](double one) { return std::isnan(one); })) return is_key;
  auto is_nan = [&](Value x) { return a.compare(tx::CompareKind::ne, x, x); };
  Value both = a.both(is_nan(each), is_nan(key));
  return a.select(both, both, is_key);
}

}  // namespace

// Elements that are keys become the values there, all others the default. Of equal keys the first one counts; NaN is equal to itself from
// version 4 on.
void label_encoder(Node& node) {
  const Arithmetic a(node);
  const bool is_text = node.is_text(0);
  Value input = is_text ? node.text(0) : node.input(0);
  auto [keys, values] = node.type() == "CategoryMapper"         ? map_of_categories(node)
                        : node.has_attribute("classes_strings") ? map_of_classes(node)
                                                                : std::pair(map_side(node, "keys"), map_side(node, "values"));
  if (keys.size() != values.size())
    node.fail("it has " + std::to_string(keys.size()) + " keys and " + std::to_string(values.size()) + " values");
  if (is_text != keys.is_text() || (!is_text && Node::type_of(input).getElementType() != keys.element))
    node.refuse_inputs("its keys have another type than its input");
  add_default(node, values);
  Extents extents = Node::extents_of(input);
  if (is_text) extents.pop_back();
  const RankedTensorType places_type = node.tensor_type(extents, node.builder.getI64Type());
  const auto count = static_cast<int64_t>(keys.size());
  Value places = node.splat(places_type, static_cast<double>(count));
  if (is_text) {
    places = places_in(node, input, keys.strings, /*last_counts=*/false);
  } else if (count > 0) {
    Value is_key = is_each_key(node, input, keys);
    const auto last = static_cast<int64_t>(extents.size());
    Value place = a.iota(Node::extents_of(is_key), last, node.builder.getI64Type());
    Value found = a.select(is_key, place, a.number(place, static_cast<double>(count)));
    places = node.make<tx::ReduceOp>(places_type, tx::ReduceKind::min, found, ArrayRef<int64_t>{last});
  }
  Value table = constant_of(node, values);
  Extents result = extents;
  if (values.is_text()) result.push_back(Node::extents_of(table).back());
  Value made = node.make<tx::GatherOp>(node.tensor_type(result, Node::type_of(table).getElementType()), table, places,
                                       node.builder.getI64IntegerAttr(0));
  values.is_text() ? node.set_text(made) : node.set_result(made);
}

}  // namespace heddle::import
