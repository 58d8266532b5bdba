// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of ai.onnx.ml that prepare features: scalers, encoders, imputers. LabelEncoder is in onnx_label_encoder.cpp.
#include <cmath>
#include <cstring>
#include <numeric>

#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_scores.h"
#include "compiler/import/onnx_text.h"

using namespace mlir;

namespace heddle::import {
namespace {

// A number for each of the input's features, its last dimension, from a list with one for all or one for each.
Value per_feature(Node& node, Value input, const std::vector<double>& numbers, const char* name) {
  const Extents extents = Node::extents_of(input);
  if (numbers.size() == 1) return node.splat(Node::type_of(input), numbers[0]);
  const auto count = static_cast<int64_t>(numbers.size());
  if (extents.empty() || !node.are_equal(extents.back(), node.builder.getAffineConstantExpr(count)))
    node.refuse_inputs(std::string("attribute '") + name + "' has " + std::to_string(count) + " elements, and is for each feature");
  Value vector = vector_like(node, input, numbers);
  return node.broadcast(node.with_extents(vector, {extents.back()}), extents);
}

std::vector<double> numbers_or(Node& node, const char* name, double otherwise) {
  if (!node.has_attribute(name)) return {otherwise};
  std::vector<double> numbers = node.number_list(name);
  return numbers.empty() ? std::vector<double>{otherwise} : numbers;
}

Value floats_of(Node& node, Value input) {
  return node.converted(input, node.builder.getF32Type());
}

void scaler(Node& node) {
  const Arithmetic a(node);
  Value input = floats_of(node, node.input(0));
  Value offset = per_feature(node, input, numbers_or(node, "offset", 0), "offset");
  node.set_result(a.mul(a.sub(input, offset), per_feature(node, input, numbers_or(node, "scale", 1), "scale")));
}

// The divisor is the largest element, the sum of sizes or the root of the sum of squares of a row; a row whose divisor is 0 stays.
void normalizer(Node& node) {
  const Arithmetic a(node);
  Value input = node.input(0);
  const Extents own = Node::extents_of(input);
  Value rows = floats_of(node, rows_of(node, input));
  const std::string norm = node.text("norm", "MAX");
  Value divisor;
  if (norm == "MAX") {
    divisor = a.reduce(tx::ReduceKind::max, rows, {1});
  } else if (norm == "L1") {
    divisor = a.reduce(tx::ReduceKind::sum, a.abs(rows), {1});
  } else if (norm == "L2") {
    divisor = a.sqrt(a.reduce(tx::ReduceKind::sum, a.mul(rows, rows), {1}));
  } else {
    node.fail("norm '" + norm + "' is none of MAX, L1 and L2");
  }
  Value is_zero = a.compare(tx::CompareKind::eq, divisor, a.number(divisor, 0));
  divisor = node.broadcast(a.select(is_zero, a.number(divisor, 1), divisor), Node::extents_of(rows));
  node.set_result(node.reshape(a.div(rows, divisor), own));
}

void binarizer(Node& node) {
  const Arithmetic a(node);
  Value input = node.input(0);
  const double threshold = node.number("threshold", 0);
  Value bound, compared = input;
  if (!llvm::isa<FloatType>(Node::type_of(input).getElementType())) compared = node.converted(input, node.builder.getF64Type());
  bound = a.number(compared, threshold);
  Value is_above = a.compare(tx::CompareKind::gt, compared, bound);
  node.set_result(a.select(is_above, a.number(input, 1), a.number(input, 0)));
}

void imputer(Node& node) {
  const Arithmetic a(node);
  Value input = node.input(0);
  const RankedTensorType type = Node::type_of(input);
  Value is_missing, imputed;
  if (llvm::isa<FloatType>(type.getElementType())) {
    const double replaced = node.number("replaced_value_float", 0);
    is_missing = std::isnan(replaced) ? a.compare(tx::CompareKind::ne, input, input)
                                      : a.compare(tx::CompareKind::eq, input, a.number(input, replaced));
    imputed = per_feature(node, input, node.number_list("imputed_value_floats"), "imputed_value_floats");
  } else {
    const Extents extents = tx::extents(type);
    const std::vector<int64_t> numbers = node.integer_list("imputed_value_int64s");
    const auto count = static_cast<int64_t>(numbers.size());
    const Type i64 = node.builder.getI64Type();
    Value wide = node.converted(input, i64);
    auto constant = [&](ArrayRef<int64_t> shape, ArrayRef<int64_t> values) -> Value {
      const RankedTensorType own = RankedTensorType::get(shape, i64);
      return node.builder.create<tx::ConstantOp>(node.location(), own, DenseElementsAttr::get(own, values));
    };
    if (count != 1 && (count == 0 || extents.empty() || !node.are_equal(extents.back(), node.builder.getAffineConstantExpr(count))))
      node.refuse_inputs("attribute 'imputed_value_int64s' has " + std::to_string(count) + " elements, and is for each feature");
    Value each = count == 1 ? constant({}, numbers) : node.with_extents(constant({count}, numbers), {extents.back()});
    Value replaced = node.broadcast(constant({}, {node.integer("replaced_value_int64", 0)}), extents);
    is_missing = a.compare(tx::CompareKind::eq, wide, replaced);
    imputed = node.converted(node.broadcast(each, extents), type.getElementType());
  }
  node.set_result(a.select(is_missing, imputed, input));
}

// Columns of the last dimension; a vector is one row.
void array_feature_extractor(Node& node) {
  Value input = node.input(0), indices = node.input(1);
  Extents extents = Node::extents_of(input);
  if (extents.empty()) node.refuse_inputs("its input needs rank 1 or more");
  if (!llvm::isa<IntegerType>(Node::type_of(indices).getElementType())) node.refuse_inputs("the indices are not integers");
  if (extents.size() == 1) input = node.reshape(input, extents = {node.builder.getAffineConstantExpr(1), extents[0]});
  const AffineExpr count = node.count_of(Node::extents_of(indices));
  indices = node.reshape(indices, {count});
  const auto axis = static_cast<int64_t>(extents.size()) - 1;
  expect_inside(node, input, axis, indices);
  extents.back() = count;
  node.set_result(node.make<tx::GatherOp>(node.tensor_type(extents, Node::type_of(input).getElementType()), input, indices,
                                          node.builder.getI64IntegerAttr(axis)));
}

// All inputs as columns of one matrix, of floats: each has as many as the attribute says, 0 for those that it lacks.
void feature_vectorizer(Node& node) {
  const std::vector<int64_t> sizes = node.integer_list("inputdimensions");
  if (static_cast<int>(sizes.size()) != node.input_count())
    node.fail("it has " + std::to_string(node.input_count()) + " inputs and " + std::to_string(sizes.size()) + " inputdimensions");
  SmallVector<Value> parts;
  Extents extents;
  int64_t columns = 0;
  for (int i = 0; i < node.input_count(); ++i) {
    const int64_t size = sizes[static_cast<size_t>(i)];
    if (size < 1 || size > largest_extent) node.fail("inputdimensions has the element " + std::to_string(size));
    Value part = floats_of(node, rows_of(node, node.input(i)));
    Extents own = Node::extents_of(part);
    if (extents.empty()) extents = own;
    if (!node.are_equal(own[0], extents[0])) node.refuse_inputs("its inputs have different numbers of rows");
    auto known = tx::static_extent(own[1]);
    if (!known && !node.are_equal(own[1], node.builder.getAffineConstantExpr(size)))
      node.refuse_inputs("input " + std::to_string(i) + " never has " + std::to_string(size) + " columns");
    const Extents wanted{extents[0], node.builder.getAffineConstantExpr(size)};
    const RankedTensorType type = node.tensor_type(wanted, node.builder.getF32Type());
    if (known && *known > size) {
      const SmallVector<int64_t> starts{0, 0}, strides{1, 1};
      part = node.make<tx::SliceOp>(node.tensor_type({own[0], wanted[1]}, node.builder.getF32Type()), part, starts, strides);
    } else if (known && *known < size) {
      const SmallVector<int64_t> low{0, 0}, high{0, size - *known};
      part = node.make<tx::PadOp>(node.tensor_type({own[0], wanted[1]}, node.builder.getF32Type()), part, low, high, llvm::APFloat(0.0));
    }
    parts.push_back(node.with_extents(part, tx::extents(type)));
    columns += size;
  }
  if (parts.empty()) node.fail("it has no inputs");
  extents[1] = node.builder.getAffineConstantExpr(columns);
  if (parts.size() == 1) return node.set_result(parts[0]);
  node.set_result(node.make<tx::ConcatOp>(node.tensor_type(extents, node.builder.getF32Type()), parts, node.builder.getI64IntegerAttr(1)));
}

// The position of each element in a list of integers, [..., count] of bools: whether it is that one.
Value is_listed(Node& node, Value elements, ArrayRef<int64_t> listed) {
  const Arithmetic a(node);
  const Type i64 = node.builder.getI64Type();
  Extents extents = Node::extents_of(elements);
  SmallVector<int64_t> own;
  for (size_t i = 0; i < extents.size(); ++i) own.push_back(static_cast<int64_t>(i));
  extents.push_back(node.builder.getAffineConstantExpr(static_cast<int64_t>(listed.size())));
  const RankedTensorType type = RankedTensorType::get(static_cast<int64_t>(listed.size()), i64);
  Value list = node.builder.create<tx::ConstantOp>(node.location(), type, DenseElementsAttr::get(type, listed));
  return a.compare(tx::CompareKind::eq, a.spread(elements, extents, own), a.spread(list, extents, {static_cast<int64_t>(own.size())}));
}

std::vector<int64_t> counted_to(size_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void one_hot_encoder(Node& node) {
  const Arithmetic a(node);
  const ClassLabels categories = labels_of(node, "cats_int64s", "cats_strings");
  if (categories.size() == 0) node.fail("it has no categories");
  const bool is_text = !categories.strings.empty();
  if (is_text != node.is_text(0)) node.refuse_inputs(std::string("its categories are ") + (is_text ? "" : "no ") + "strings");
  // Of strings, their places among the categories.
  Value elements = is_text ? places_in(node, node.text(0), categories.strings, /*last_counts=*/true)
                           : node.converted(node.input(0), node.builder.getI64Type());
  const std::vector<int64_t> counted = counted_to(categories.size());
  Value is_category = is_listed(node, elements, is_text ? counted : categories.integers);
  Value result = node.converted(is_category, node.builder.getF32Type());
  if (node.integer("zeros", 1) == 0) {  // an element that is no category is an error
    const auto last = static_cast<int64_t>(Node::extents_of(result).size()) - 1;
    const RankedTensorType type = node.tensor_type(Node::extents_of(elements), node.builder.getF32Type());
    Value found = node.make<tx::ReduceOp>(type, tx::ReduceKind::max, result, ArrayRef<int64_t>{last});
    Value none = a.compare(tx::CompareKind::eq, found, a.number(found, 0));
    const RankedTensorType whole = tx::with_element_type(type, node.builder.getI64Type());
    Value index = a.select(none, node.splat(whole, static_cast<double>(categories.size())), node.splat(whole, 0));
    expect_inside(node, result, last, index);
  }
  node.set_result(result);
}

// A list of maps from labels to scores is not a tensor; the result is the scores, whose column i is for label i.
void zip_map(Node& node) {
  node.set_result(node.input(0));
}

}  // namespace

const Table& feature_operators() {
  static const Table table = {
      {"ArrayFeatureExtractor", array_feature_extractor},
      {"Binarizer", binarizer},
      {"CastMap", cast_map},
      {"CategoryMapper", label_encoder},
      {"DictVectorizer", dict_vectorizer},
      {"FeatureVectorizer", feature_vectorizer},
      {"Imputer", imputer},
      {"LabelEncoder", label_encoder},
      {"Normalizer", normalizer},
      {"OneHotEncoder", one_hot_encoder},
      {"Scaler", scaler},
      {"ZipMap", zip_map},
  };
  return table;
}

}  // namespace heddle::import
