// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of ai.onnx.ml that read a map, which is two vectors: its keys and its values.
#include <set>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_checks.h"
#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_scores.h"
#include "compiler/import/onnx_text.h"

using namespace mlir;

namespace heddle::import {
namespace {

const Map& map_input(Node& node) {
  const Operand& given = node.any_operand(0);
  if (!given.map) node.fail("input 0 ('" + node.input_name(0) + "') is " + kind_of(given) + ", and has to be a map");
  return *given.map;
}

// The values at places of a row of `count` elements, [1, count]; others are zeros or empty strings, and a place from `count` on is left out.
void set_row(Node& node, const Operand& values, Value places, int64_t count) {
  Extents row{node.builder.getAffineConstantExpr(count)};
  if (values.is_compound()) row.push_back(width_of(values.value));
  const RankedTensorType type = node.tensor_type(row, Node::type_of(values.value).getElementType());
  Value result =
      node.make<tx::ScatterOp>(type, node.splat(type, 0), places, values.value, node.builder.getI64IntegerAttr(0), tx::ReduceKindAttr());
  row.insert(row.begin(), node.builder.getAffineConstantExpr(1));
  node.set_operand(Operand::of(node.reshape(result, row), values.refused_type));
}

// The place of each key among the listed ones, or their number.
Value places_of_keys(Node& node, Value keys, ArrayRef<int64_t> listed) {
  const Arithmetic a(node);
  const auto count = static_cast<int64_t>(listed.size());
  const Extents pairs{Node::extents_of(keys)[0], node.builder.getAffineConstantExpr(count)};
  const RankedTensorType type = RankedTensorType::get({count}, node.builder.getI64Type());
  Value list = node.make<tx::ConstantOp>(type, DenseElementsAttr::get(type, listed));
  Value is_it = a.compare(tx::CompareKind::eq, a.spread(keys, pairs, {0}), a.spread(list, pairs, {1}));
  Value place = a.iota(pairs, 1, node.builder.getI64Type());
  place = a.select(is_it, place, a.number(place, static_cast<double>(count)));
  return node.make<tx::ReduceOp>(Node::type_of(keys), tx::ReduceKind::min, place, ArrayRef<int64_t>{1});
}

}  // namespace

void dict_vectorizer(Node& node) {
  const Map& map = map_input(node);
  const ClassLabels vocabulary = labels_of(node, "int64_vocabulary", "string_vocabulary");
  const bool is_text = !vocabulary.strings.empty();
  if (vocabulary.size() == 0) node.fail("it has no vocabulary");
  if (is_text != map.keys.is_compound())
    node.fail(std::string("its vocabulary is of ") + (is_text ? "strings" : "integers") + ", and the keys of its map are not");
  std::set<std::string> strings(vocabulary.strings.begin(), vocabulary.strings.end());
  std::set<int64_t> integers(vocabulary.integers.begin(), vocabulary.integers.end());
  if (strings.size() + integers.size() != vocabulary.size()) node.fail("its vocabulary has a key twice");
  Value places =
      is_text ? places_among(node, map.keys.value, vocabulary.strings) : places_of_keys(node, map.keys.value, vocabulary.integers);
  set_row(node, map.values, places, static_cast<int64_t>(vocabulary.size()));
}

void cast_map(Node& node) {
  const Arithmetic a(node);
  const Map& map = map_input(node);
  if (map.keys.is_compound()) node.fail("the keys of its map are strings, and have to be INT64");
  const std::string to = node.text("cast_to", "TO_FLOAT"), form = node.text("map_form", "DENSE");
  if (to != "TO_FLOAT" && to != "TO_INT64" && to != "TO_STRING")
    node.fail("cast_to '" + to + "' is neither TO_FLOAT, TO_INT64 nor TO_STRING");
  if (form != "DENSE" && form != "SPARSE") node.fail("map_form '" + form + "' is neither DENSE nor SPARSE");
  const bool to_text = to == "TO_STRING";
  if (to_text != map.values.is_compound()) {
    return node.unsupported(to_text ? "numbers of a map are not made strings" : "strings of a map are not made numbers",
                            to_text ? "TO_FLOAT" : "TO_STRING");
  }
  Operand values = map.values;
  if (!to_text)
    values.value = node.converted(values.value, to == "TO_FLOAT" ? Type(node.builder.getF32Type()) : Type(node.builder.getI64Type()));
  Value keys = map.keys.value;
  if (form == "DENSE") {  // the values in the order of their keys
    Value order = node.make<tx::SortOp>(Node::type_of(keys), keys, node.builder.getI64IntegerAttr(0), UnitAttr());
    Value row = taken(node, values.value, order);
    Extents extents = Node::extents_of(row);
    extents.insert(extents.begin(), node.builder.getAffineConstantExpr(1));
    return node.set_operand(Operand::of(node.reshape(row, extents), values.refused_type));
  }
  const int64_t count = node.integer("max_map", 1);
  if (count < 1 || count > largest_extent) node.fail("max_map is " + std::to_string(count));
  set_row(node, values, keys, count);
  // Keys from `max_map` on are left out, and those below 0 are errors.
  expect_inside_from_zero(node, values.value, 0, a.min(keys, a.number(keys, 0)));
}

}  // namespace heddle::import
