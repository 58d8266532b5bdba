// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on a few known numbers. Exporters write it for shapes that involve a root, a quotient or a rounded product of floats; it is computed
// here so that the results can be shapes.
#include "compiler/import/onnx_fold.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace heddle::import {
namespace {

// Numbers of one type, all of which f64 can represent.
struct Numbers {
  std::vector<double> values;
  RankedTensorType type;
};

constexpr double largest_whole = 0x1p53;

bool is_computed(Type element) {
  return element.isF32() || element.isF64() || element.isSignlessInteger(32) || element.isSignlessInteger(64);
}

// The elements of a tensor of rank 0 or 1 with a few elements; none if it is another kind of tensor, or not known.
std::optional<Numbers> numbers_of(Node& node, int index) {
  const Operand& operand = node.operand(index);
  Numbers numbers;
  if (operand.is_shape()) {
    for (AffineExpr element : *operand.elements) {
      auto value = tx::static_extent(element);
      if (!value || std::abs(static_cast<double>(*value)) > largest_whole) return {};
      numbers.values.push_back(static_cast<double>(*value));
    }
    auto count = static_cast<int64_t>(numbers.values.size());
    numbers.type = RankedTensorType::get(operand.rank == 0 ? ArrayRef<int64_t>() : ArrayRef<int64_t>(count),
                                         node.builder.getIntegerType(operand.bits));
    return numbers;
  }
  DenseElementsAttr known = operand.value ? known_elements(operand.value) : DenseElementsAttr();
  if (!known || known.getType().getRank() > 1 || known.getNumElements() > static_cast<int64_t>(most_shape_elements)) return {};
  if (!known.getElementType().isF32() && !known.getElementType().isF64()) return {};  // integers have elements
  for (Attribute element : known.getValues<Attribute>()) numbers.values.push_back(number_of(element));
  numbers.type = llvm::cast<RankedTensorType>(known.getType());
  return numbers;
}

// The number as an element of the type; none if it is not one.
std::optional<double> rounded(double value, Type element) {
  if (element.isF64()) return value;
  if (element.isF32()) return static_cast<double>(static_cast<float>(value));
  double whole = std::trunc(value), limit = element.isInteger(32) ? 0x1p31 : largest_whole;
  return whole >= -limit && whole < limit ? std::optional(whole) : std::nullopt;
}

struct Computation {
  int inputs;
  double (*compute)(double a, double b);
};

// Null for operators that are not computed here.
const Computation* computation(const std::string& operator_name) {
  static const std::map<std::string, Computation, std::less<>> table = {
      {"Add", {2, [](double a, double b) { return a + b; }}},
      {"Cast", {1, [](double a, double) { return a; }}},
      {"Ceil", {1, [](double a, double) { return std::ceil(a); }}},
      {"Div", {2, [](double a, double b) { return a / b; }}},
      {"Floor", {1, [](double a, double) { return std::floor(a); }}},
      {"Max", {2, [](double a, double b) { return std::max(a, b); }}},
      {"Min", {2, [](double a, double b) { return std::min(a, b); }}},
      {"Mul", {2, [](double a, double b) { return a * b; }}},
      {"Neg", {1, [](double a, double) { return -a; }}},
      {"Pow", {2, [](double a, double b) { return std::pow(a, b); }}},
      {"Reciprocal", {1, [](double a, double) { return 1 / a; }}},
      {"Round", {1, [](double a, double) { return std::nearbyint(a); }}},
      {"Sqrt", {1, [](double a, double) { return std::sqrt(a); }}},
      {"Sub", {2, [](double a, double b) { return a - b; }}},
  };
  auto it = table.find(operator_name);
  return it == table.end() ? nullptr : &it->second;
}

// The number of elements after broadcasting; none if there are none, or if the lengths do not fit.
std::optional<size_t> common_count(ArrayRef<Numbers> inputs) {
  size_t count = 1;
  for (const Numbers& input : inputs) {
    size_t own = input.values.size();
    if (own == 0 || (own != 1 && count != 1 && own != count)) return {};
    count = std::max(count, own);
  }
  return count;
}

}  // namespace

bool fold_numbers(Node& node) {
  const bool is_cast_like = node.type() == "CastLike", is_cast = node.type() == "Cast" || is_cast_like;
  const Computation* known = computation(is_cast ? "Cast" : node.type());
  if (node.opset() < 7 && !is_cast_like) return false;  // their forms and attributes are others
  if (!known || node.input_count() != known->inputs + (is_cast_like ? 1 : 0)) return false;
  std::vector<Numbers> inputs;
  bool has_floats = false;
  for (int i = 0; i < known->inputs; ++i) {
    if (!node.has_input(i)) return false;
    auto numbers = numbers_of(node, i);
    if (!numbers) return false;
    has_floats |= llvm::isa<FloatType>(numbers->type.getElementType());
    inputs.push_back(std::move(*numbers));
  }
  RankedTensorType type = inputs[0].type;
  Type element = type.getElementType();
  if (is_cast) {
    if (is_cast_like) {
      if (!node.has_input(1)) return false;
      element = Node::type_of(node.input(1)).getElementType();
    } else {
      if (node.integer("to") < 0 || node.integer("to") > std::numeric_limits<int32_t>::max()) return false;
      element = element_type(node.builder.getContext(), node.integer("to"), node.describe(), /*may_be_narrow=*/true);
    }
    has_floats |= llvm::isa<FloatType>(element);
  } else if (node.type() == "Pow" ? llvm::isa<IntegerType>(element) : inputs.back().type.getElementType() != element) {
    return false;  // integers wrap, and are divided differently
  }
  if (!has_floats || !is_computed(element)) return false;
  std::optional<size_t> count = common_count(inputs);
  if (!count) return false;
  for (const Numbers& input : inputs) {
    if (input.type.getRank() > type.getRank() || (input.type.getRank() > 0 && input.values.size() == *count)) type = input.type;
  }
  std::vector<double> results;
  for (size_t i = 0; i < *count; ++i) {
    auto at = [&](const Numbers& input) { return input.values[input.values.size() == 1 ? 0 : i]; };
    auto result = rounded(known->compute(at(inputs.front()), at(inputs.back())), element);
    if (!result) return false;
    results.push_back(*result);
  }
  if (llvm::isa<IntegerType>(element)) {
    std::vector<AffineExpr> elements;
    for (double result : results) elements.push_back(node.builder.getAffineConstantExpr(static_cast<int64_t>(result)));
    node.set_elements(std::move(elements), type.getRank(), element.getIntOrFloatBitWidth());
    return true;
  }
  type = tx::with_element_type(type, element);
  SmallVector<Attribute> attributes;
  for (double result : results) attributes.push_back(node.builder.getFloatAttr(element, result));
  node.set_result(node.builder.create<tx::ConstantOp>(node.location(), type, DenseElementsAttr::get(type, attributes)));
  return true;
}

}  // namespace heddle::import
