// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_compound.h"

#include <set>

#include "compiler/import/onnx_arithmetic.h"
#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_text.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace heddle::import {
namespace {

// Operators that give all elements in their order.
bool keeps_order(StringRef type) {
  return type == "Flatten" || type == "Reshape" || type == "Squeeze" || type == "Unsqueeze";
}

// Operators that put zeros, or empty strings, between the elements.
bool fills(StringRef type) {
  return type == "CenterCropPad" || type == "Pad" || type == "Trilu";
}

// The extents without the last one, which is that of the numbers of each element.
Extents elements_of(Value value) {
  Extents extents = Node::extents_of(value);
  extents.pop_back();
  return extents;
}

// 1 for each element with a number that is not 0.
Value is_not_zero(Node& node, Value value) {
  const Arithmetic a(node);
  const int64_t last = Node::type_of(value).getRank() - 1;
  const Extents elements = elements_of(value);
  Value flags = node.converted(a.compare(tx::CompareKind::ne, value, a.number(value, 0)), node.builder.getI64Type());
  Value any =
      node.make<tx::ReduceOp>(node.tensor_type(elements, node.builder.getI64Type()), tx::ReduceKind::sum, flags, ArrayRef<int64_t>{last});
  return a.compare(tx::CompareKind::ne, any, a.number(any, 0));
}

}  // namespace

bool is_compound(int32_t onnx_type) {
  return onnx_type == onnx::TensorProto::STRING || onnx_type == onnx::TensorProto::COMPLEX64 || onnx_type == onnx::TensorProto::COMPLEX128;
}

Type number_type(MLIRContext* context, int32_t onnx_type) {
  switch (onnx_type) {
    case onnx::TensorProto::STRING:
      return text_element(context);
    case onnx::TensorProto::COMPLEX64:
      return Float32Type::get(context);
    case onnx::TensorProto::COMPLEX128:
      return Float64Type::get(context);
    default:
      return {};
  }
}

ElementKind element_kind(MLIRContext* context, int64_t onnx_type, const std::string& who, bool may_be_narrow) {
  const auto number = static_cast<int32_t>(onnx_type);
  if (number == onnx_type && is_compound(number)) return {number_type(context, number), number};
  return {element_type(context, onnx_type, who, may_be_narrow), {}};
}

ElementKind kind_of_elements(const Node& node, const Operand& tensor) {
  const Type type = tensor.value ? Node::type_of(tensor.value).getElementType() : Type(node.builder.getIntegerType(tensor.bits));
  return {type, tensor.is_compound() ? tensor.refused_type : std::nullopt};
}

std::string name_of(const ElementKind& kind) {
  if (kind.compound) return element_type_name(*kind.compound);
  std::string text;
  llvm::raw_string_ostream(text) << kind.type;
  return text;
}

int64_t rank_of(const Operand& operand, Value value) {
  return Node::type_of(value).getRank() - (operand.is_compound() ? 1 : 0);
}

void align(Node& node, std::optional<int32_t> compound, SmallVectorImpl<Value>& values, bool by_data) {
  if (compound != onnx::TensorProto::STRING || values.empty()) return;
  if (llvm::all_of(values, [&](Value value) { return width_of(value) == width_of(values[0]); })) return;
  AffineExpr width = node.builder.getAffineConstantExpr(0), all = width;
  bool is_static = true;
  for (Value value : values) {
    const std::optional<int64_t> own = tx::static_extent(width_of(value));
    is_static &= own.has_value();
    if (is_static && *own > *tx::static_extent(width)) width = width_of(value);
    all = all + width_of(value);
  }
  if (!is_static && !by_data) return;
  if (!is_static) width = node.computed(all);
  for (Value& value : values) {
    if (width_of(value) != width) value = padded(node, value, width - width_of(value));
    value = node.with_extents(value, with_width(strings_of(value), width));
  }
}

bool carries_compound(const std::string& domain, const std::string& type, int input) {
  if (!domain.empty()) return false;
  constexpr int all = 1 << 30;
  struct Inputs {
    int first, count;
  };
  static const llvm::StringMap<Inputs> known = {
      {"ConcatFromSequence", {0, 1}},  {"Identity", {0, 1}},           {"Loop", {2, all}},          {"Optional", {0, 1}},
      {"OptionalGetElement", {0, 1}},  {"OptionalHasElement", {0, 1}}, {"Scan", {0, all}},          {"SequenceAt", {0, 1}},
      {"SequenceConstruct", {0, all}}, {"SequenceErase", {0, 1}},      {"SequenceInsert", {0, 2}},  {"SequenceLength", {0, 1}},
      {"SequenceMap", {0, all}},       {"SplitToSequence", {0, 1}},    {outputs_operator, {0, all}}};
  auto found = known.find(type);
  return found != known.end() && input >= found->second.first && input - found->second.first < found->second.count;
}

bool moves_compound(const std::string& domain, const std::string& type) {
  static const llvm::StringSet<> known = {
      "CenterCropPad", "Compress",       "Concat",          "DepthToSpace", "Expand",          "Flatten",
      "Gather",        "GatherElements", "GatherND",        "NonZero",      "OneHot",          "Pad",
      "Reshape",       "Resize",         "ReverseSequence", "Scatter",      "ScatterElements", "ScatterND",
      "Shape",         "Size",           "Slice",           "SpaceToDepth", "Split",           "Squeeze",
      "TensorScatter", "Tile",           "Transpose",       "Trilu",        "Unsqueeze",       "Upsample",
      "Where"};
  return domain == "ai.onnx.ml" ? type == "ArrayFeatureExtractor" : domain.empty() && known.contains(type);
}

void move_compound(Node& node, const onnx::NodeProto& proto, Translate translate) {
  if (const std::string reduction = node.text("reduction", "none"); reduction != "none")
    node.fail("elements that are strings or complex numbers have no reduction '" + reduction + "'", HEDDLE_STATUS_UNIMPLEMENTED);
  const Arithmetic a(node);
  const Type i64 = node.builder.getI64Type();
  onnx::NodeProto moved = proto;
  SmallVector<Value> parts;
  std::set<std::string> made;
  std::optional<int32_t> type;
  AffineExpr total = node.builder.getAffineConstantExpr(0);
  auto take = [&](int input, Value value) {
    std::string name = node.input_name(input);
    do name += " by number";
    while (node.graph.operands.contains(name));
    node.graph.operands[name] = Operand{value, {}, 0};
    made.insert(name);
    moved.set_input(input, name);
  };
  for (int i = 0; i < node.input_count(); ++i) {
    if (!node.is_compound(i)) continue;
    const Operand& operand = node.graph.operands.at(node.input_name(i));
    if (type && type != operand.refused_type) node.refuse_inputs("element types of the inputs differ");
    type = operand.refused_type;
    Value value = operand.value;
    if (node.type() == "NonZero") {
      take(i, is_not_zero(node, value));
      continue;
    }
    const Extents elements = elements_of(value);
    const AffineExpr count = node.count_of(elements), one = node.builder.getAffineConstantExpr(1);
    value = node.reshape(value, {count, width_of(value)});
    if (parts.empty() && fills(node.type())) {  // number 0
      parts.push_back(node.splat(node.tensor_type({one, width_of(value)}, Node::type_of(value).getElementType()), 0));
      total = one;
    }
    Value number = a.iota({count}, 0, i64);
    if (!parts.empty()) number = a.add(number, a.extent(total, number));
    take(i, node.reshape(number, elements));
    parts.push_back(value);
    total = total + count;
  }
  Node by_number(node.graph, moved, node.location());
  translate(by_number);
  for (const std::string& name : made) node.graph.operands.erase(name);
  if (!node.graph.unsupported.empty() || parts.empty() || node.type() == "Shape" || node.type() == "Size") return;
  if (keeps_order(node.type())) {
    auto it = node.graph.operands.find(node.output(0));
    if (it == node.graph.operands.end()) return;
    Extents extents = Node::extents_of(by_number.value_of(it->second));
    extents.push_back(width_of(parts[0]));
    it->second = Operand::of(node.reshape(parts[0], extents), type);
    return;
  }
  if (!tx::static_extent(total)) {  // one more, so that there is one
    Extents row = Node::extents_of(parts[0]);
    row[0] = node.builder.getAffineConstantExpr(1);
    parts.push_back(node.splat(node.tensor_type(row, Node::type_of(parts[0]).getElementType()), 0));
  }
  align(node, type, parts, /*by_data=*/true);
  Value all = parts.size() > 1 ? joined_along(node, parts, 0) : parts[0];
  for (int i = 0; i < node.output_count(); ++i) {
    if (!node.wants_output(i)) continue;
    auto it = node.graph.operands.find(node.output(i));
    if (it == node.graph.operands.end()) continue;
    it->second = Operand::of(looked_up(node, all, by_number.value_of(it->second)), type);
  }
}

}  // namespace heddle::import
