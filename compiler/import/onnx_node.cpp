// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every translation needs from its node: typed access to inputs and attributes, broadcasting, results.
#include <algorithm>

#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_compound.h"
#include "compiler/import/onnx_graph.h"
#include "compiler/import/onnx_narrow.h"

using namespace mlir;

namespace heddle::import {

std::string shape_text(ArrayRef<AffineExpr> extents, const std::vector<std::string>& symbols) {
  std::string text = "[";
  for (auto [i, extent] : llvm::enumerate(extents)) {
    std::string shown;
    llvm::raw_string_ostream(shown) << extent;
    for (size_t s = symbols.size(); s-- > 0;) {
      const std::string position = "s" + std::to_string(s);
      if (shown == position) shown = symbols[s];
    }
    text += (i > 0 ? "," : "") + shown;
  }
  return text + "]";
}

namespace {

// "f32[n,4]", as in other messages: with the names of symbols.
std::string type_text(RankedTensorType type, const std::vector<std::string>& symbols) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (const tx::NarrowFormat* narrow = tx::narrow_format(type.getElementType())) {
    stream << narrow->name;
  } else if (type.getElementType().isInteger(1)) {
    stream << "bool";
  } else {
    stream << type.getElementType();
  }
  if (text.starts_with("ui")) text.erase(1, 1);
  return text + shape_text(tx::extents(type), symbols);
}

}  // namespace

std::string described(const onnx::NodeProto& node, int64_t opset) {
  if (node.op_type() == outputs_operator) return "the graph's outputs";
  std::string name = node.name().empty() ? (node.output_size() ? node.output(0) : "") : node.name();
  std::string domain = node.domain().empty() ? "" : node.domain() + ".";
  return "node '" + name + "' (operator " + domain + node.op_type() + ", opset " + std::to_string(opset) + ")";
}

void Node::fail(const std::string& cause, heddle_status_code_t code) const {
  throw Failure{code, "onnx: importing " + describe() + " failed: " + cause, cause};
}

void Node::refuse_inputs(const std::string& cause) const {
  std::string types;
  for (const std::string& name : proto_.input()) {
    auto it = graph.operands.find(name);
    if (it == graph.operands.end() || !it->second.value) continue;
    types += (types.empty() ? ": input '" : ", '") + name + "' is " + type_text(type_of(it->second.value), graph.symbols.names());
  }
  fail(cause + types);
}

void Node::unsupported(const std::string& cause, const std::string& nearest) const {
  graph.unsupported.push_back({HEDDLE_STATUS_UNIMPLEMENTED, "onnx: importing " + describe() + " failed: " + cause, cause, {}, nearest});
}

const Operand& Node::operand(int index) const {
  const Operand& found = any_operand(index);
  if (!found.is_tensor())
    fail("input " + std::to_string(index) + " ('" + proto_.input(index) + "') is " + kind_of(found) + ", and has to be a tensor");
  return found;
}

const Operand& Node::any_operand(int index) const {
  if (!has_input(index)) fail("input " + std::to_string(index) + " is missing");
  auto it = graph.operands.find(proto_.input(index));
  if (it == graph.operands.end())
    fail((type() == outputs_operator ? "output '" : "input '") + proto_.input(index) + "' is produced by no earlier node");
  const bool is_known = it->second.is_compound() && carries_compound(domain_key(proto_.domain()), proto_.op_type(), index);
  if (it->second.refused_type && !is_known) {
    const int32_t refused = *it->second.refused_type;
    const std::string type = element_type_name(refused),
                      cause = "input " + std::to_string(index) + " ('" + proto_.input(index) + "') has element type " + type + ", which " +
                              (it->second.is_compound() ? "this operator does not support" : "is not supported");
    throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "onnx: importing " + describe() + " failed: " + cause, cause, type,
                  nearest_element_type(refused)};
  }
  const tx::NarrowFormat* narrow = it->second.value ? tx::narrow_format(type_of(it->second.value).getElementType()) : nullptr;
  if (narrow && !accepts_narrow(domain_key(proto_.domain()), proto_.op_type())) {
    const std::string type = onnx_name(*narrow), cause = "input " + std::to_string(index) + " ('" + proto_.input(index) +
                                                         "') has element type " + type + ", which this operator does not support";
    throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, "onnx: importing " + describe() + " failed: " + cause, cause, type,
                  narrow->is_float()      ? "FLOAT16"
                  : narrow->is_unsigned() ? "UINT8"
                                          : "INT8"};
  }
  return it->second;
}

const std::string& Node::output(int index) const {
  if (index >= proto_.output_size()) fail("output " + std::to_string(index) + " is missing");
  return proto_.output(index);
}

const std::string& Node::input_name(int index) const {
  if (!has_input(index)) fail("input " + std::to_string(index) + " is missing");
  return proto_.input(index);
}

bool Node::is_compound(int index) const {
  if (!has_input(index)) return false;
  auto it = graph.operands.find(proto_.input(index));
  return it != graph.operands.end() && it->second.is_compound() && it->second.is_tensor();
}

bool Node::is_text(int index) const {
  return is_compound(index) && graph.operands.at(proto_.input(index)).refused_type == onnx::TensorProto::STRING;
}

Value Node::text(int index) const {
  if (is_text(index)) return graph.operands.at(proto_.input(index)).value;
  operand(index);
  fail("input " + std::to_string(index) + " ('" + proto_.input(index) + "') is not of strings");
}

Value Node::input(int index) {
  return value_of(operand(index));
}

Value Node::value_of(const Operand& found) {
  if (found.value) return found.value;
  Value value = from_elements(found);
  if (!found.is_matrix()) return value;
  auto rows = static_cast<int64_t>(found.elements->size()) / found.columns;
  return reshape(value, {builder.getAffineConstantExpr(rows), builder.getAffineConstantExpr(found.columns)});
}

// Elements as a tensor: a constant, or a concat of constants and of values of symbols.
Value Node::from_elements(const Operand& operand) {
  Type element_type = builder.getIntegerType(operand.bits);
  auto constant = [&](ArrayRef<int64_t> values, int64_t rank) -> Value {
    auto type = RankedTensorType::get(rank == 0 ? ArrayRef<int64_t>() : static_cast<int64_t>(values.size()), element_type);
    SmallVector<APInt> numbers;
    for (int64_t value : values) numbers.emplace_back(operand.bits, static_cast<uint64_t>(value), /*isSigned=*/true);
    return builder.create<tx::ConstantOp>(location_, type, DenseElementsAttr::get(type, numbers));
  };
  SmallVector<Value> pieces;
  SmallVector<int64_t> known;
  for (AffineExpr element : *operand.elements) {
    if (auto value = tx::static_extent(element)) {
      known.push_back(*value);
      continue;
    }
    if (!known.empty()) pieces.push_back(constant(known, 1));
    known.clear();
    auto type = RankedTensorType::get(operand.rank == 0 ? ArrayRef<int64_t>() : ArrayRef<int64_t>(1), element_type);
    pieces.push_back(symbolic_element(element, type));
  }
  if (!known.empty() || pieces.empty()) pieces.push_back(constant(known, operand.rank));
  if (pieces.size() == 1) return pieces[0];
  auto type = RankedTensorType::get(static_cast<int64_t>(operand.elements->size()), element_type);
  return make<tx::ConcatOp>(type, pieces, builder.getI64IntegerAttr(0));
}

// The number that an expression has when the model runs, in a tensor of one element.
Value Node::symbolic_element(AffineExpr element, RankedTensorType type) {
  if (auto value = tx::static_extent(element)) return splat(type, static_cast<double>(*value));
  if (llvm::isa<AffineSymbolExpr>(element)) {  // the last of 0 to the extent
    RankedTensorType counted = tensor_type({element + 1}, type.getElementType());
    Value count = make<tx::IotaOp>(counted, builder.getI64IntegerAttr(0));
    Value last = splat(tx::with_element_type(type, builder.getI64Type()), -1);
    return make<tx::GatherOp>(type, count, last, builder.getI64IntegerAttr(0));
  }
  auto binary = llvm::cast<AffineBinaryOpExpr>(element);
  Value left = symbolic_element(binary.getLHS(), type), right = symbolic_element(binary.getRHS(), type);
  switch (element.getKind()) {
    case AffineExprKind::Add:
      return make<tx::AddOp>(type, left, right);
    case AffineExprKind::Mul:
      return make<tx::MulOp>(type, left, right);
    case AffineExprKind::FloorDiv:
    case AffineExprKind::Mod: {
      Value quotient = floor_quotient(left, right, tx::never_negative(binary.getLHS()));
      if (element.getKind() == AffineExprKind::FloorDiv) return quotient;
      return make<tx::SubOp>(type, left, make<tx::MulOp>(type, quotient, right));
    }
    default:
      fail("a shape with symbols is used as data, and one of its elements is rounded up", HEDDLE_STATUS_UNIMPLEMENTED);
  }
}

// For integers, divided by one above 0.
Value Node::floor_quotient(Value left, Value right, bool never_negative) {
  RankedTensorType type = type_of(left);
  if (!never_negative) {  // quotients are rounded towards 0
    Value less = make<tx::SubOp>(type, left, make<tx::SubOp>(type, right, splat(type, 1)));
    Value is_negative = make<tx::CompareOp>(tx::with_element_type(type, builder.getI1Type()), tx::CompareKind::lt, left, splat(type, 0));
    left = make<tx::SelectOp>(type, is_negative, less, left);
  }
  return make<tx::DivOp>(type, left, right);
}

std::vector<AffineExpr> Node::elements(int index) const {
  const Operand& found = operand(index);
  if (!found.elements || found.is_matrix()) {
    if (found.value) graph.need_elements(found.value);
    fail("input " + std::to_string(index) + " ('" + proto_.input(index) + "') must be known when the model is compiled",
         HEDDLE_STATUS_UNIMPLEMENTED);
  }
  return *found.elements;
}

std::vector<int64_t> Node::integers(int index) const {
  std::vector<int64_t> result;
  for (AffineExpr element : elements(index)) {
    auto constant = llvm::dyn_cast<AffineConstantExpr>(element);
    if (!constant) fail("input " + std::to_string(index) + " depends on a symbolic dimension", HEDDLE_STATUS_UNIMPLEMENTED);
    result.push_back(constant.getValue());
  }
  return result;
}

const onnx::AttributeProto* Node::find(const char* name) const {
  for (const auto& attribute : proto_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t Node::integer(const char* name, std::optional<int64_t> otherwise) const {
  const auto* attribute = find(name);
  if (!attribute && otherwise) return *otherwise;
  if (!attribute || attribute->type() != onnx::AttributeProto::INT) fail(std::string("attribute '") + name + "' must be an integer");
  return attribute->i();
}

double Node::number(const char* name, double otherwise) const {
  const auto* attribute = find(name);
  if (!attribute) return otherwise;
  if (attribute->type() != onnx::AttributeProto::FLOAT) fail(std::string("attribute '") + name + "' must be a float");
  return attribute->f();
}

std::string Node::text(const char* name, const std::string& otherwise) const {
  const auto* attribute = find(name);
  if (!attribute) return otherwise;
  if (attribute->type() != onnx::AttributeProto::STRING) fail(std::string("attribute '") + name + "' must be a string");
  return attribute->s();
}

std::vector<int64_t> Node::integer_list(const char* name, std::optional<std::vector<int64_t>> otherwise) const {
  const auto* attribute = find(name);
  if (!attribute && otherwise) return *otherwise;
  if (!attribute || attribute->type() != onnx::AttributeProto::INTS)
    fail(std::string("attribute '") + name + "' must be a list of integers");
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<std::string> Node::text_list(const char* name) const {
  const auto* attribute = find(name);
  if (!attribute) return {};
  if (attribute->type() != onnx::AttributeProto::STRINGS) fail(std::string("attribute '") + name + "' must be a list of strings");
  return {attribute->strings().begin(), attribute->strings().end()};
}

std::vector<double> Node::number_list(const char* name) const {
  const auto* attribute = find(name);
  if (!attribute || attribute->type() != onnx::AttributeProto::FLOATS)
    fail(std::string("attribute '") + name + "' must be a list of floats");
  return {attribute->floats().begin(), attribute->floats().end()};
}

const onnx::TensorProto* Node::tensor(const char* name) const {
  const auto* attribute = find(name);
  if (!attribute) return nullptr;
  if (attribute->type() != onnx::AttributeProto::TENSOR) fail(std::string("attribute '") + name + "' must be a tensor");
  return &attribute->t();
}

const onnx::GraphProto& Node::subgraph(const char* name) const {
  const auto* attribute = find(name);
  if (!attribute || attribute->type() != onnx::AttributeProto::GRAPH) fail(std::string("attribute '") + name + "' must be a graph");
  return attribute->g();
}

void Node::set_operand(Operand operand, int index) {
  if (!wants_output(index)) return;
  const std::string& name = proto_.output(index);
  if (!graph.operands.try_emplace(name, std::move(operand)).second) fail("output '" + name + "' is produced twice");
}

void Node::set_result(Value value, int index) {
  set_operand({value, {}, 0}, index);
}

void Node::set_text(Value value, int index) {
  set_operand(Operand::of(value, onnx::TensorProto::STRING), index);
}

void Node::set_elements(std::vector<AffineExpr> elements, int64_t rank, unsigned bits, int index) {
  if (elements.size() > most_shape_elements) {
    fail("a shape of " + std::to_string(elements.size()) + " elements is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
  }
  Operand operand{{}, std::move(elements), rank};
  operand.bits = bits;
  set_operand(std::move(operand), index);
}

bool Node::fold(llvm::function_ref<AffineExpr(ArrayRef<AffineExpr>)> compute, unsigned bits, int first) {
  SmallVector<const Operand*> inputs;
  size_t count = 1;
  int64_t rank = 0;
  for (int i = 0; i < input_count(); ++i) {
    const Operand& input = operand(i);
    if (!input.is_folded() || (i > first && input.bits != inputs[first]->bits)) return false;
    inputs.push_back(&input);
    if (input.elements->size() != 1) count = input.elements->size();
    rank = std::max(rank, input.rank);
  }
  if (inputs.empty()) return false;
  std::vector<AffineExpr> result;
  for (const Operand* input : inputs) {
    if (input->elements->size() != 1 && input->elements->size() != count) fail("operands do not broadcast");
  }
  bits = bits ? bits : inputs[first]->bits;
  const Symbols::Mark mark = graph.symbols.mark();
  for (size_t i = 0; i < count; ++i) {
    SmallVector<AffineExpr> arguments;
    for (const Operand* input : inputs) arguments.push_back((*input->elements)[input->elements->size() == 1 ? 0 : i]);
    AffineExpr element = compute(arguments);
    auto value = element ? tx::static_extent(element) : std::nullopt;
    if (!element || (value && bits == 32 && !llvm::isInt<32>(*value))) {  // or it wraps around
      graph.symbols.go_back(mark);
      return false;
    }
    result.push_back(element);
  }
  set_elements(std::move(result), rank, bits);
  return true;
}

int64_t Node::axis(int64_t value, int64_t rank) const {
  if (value < -rank || value >= rank) fail("axis " + std::to_string(value) + " is outside of rank " + std::to_string(rank));
  return value < 0 ? value + rank : value;
}

RankedTensorType Node::tensor_type(ArrayRef<AffineExpr> extents, Type element_type) const {
  if (std::string cause = refuse_extents(extents); !cause.empty()) fail(cause);
  return tx::tensor_type(extents, element_type);
}

AffineExpr Node::computed(AffineExpr extent) const {
  if (!extent)
    fail("a number in its shapes is above " + std::to_string(largest_extent) + ", or depends on symbols in a way that is not supported");
  return extent;
}

bool Node::are_equal(AffineExpr a, AffineExpr b) {
  return graph.symbols.equate(a, b, describe());
}

Value Node::with_extents(Value value, ArrayRef<AffineExpr> extents) {
  return ArrayRef<AffineExpr>(extents_of(value)) == extents ? value : reshape(value, extents);
}

AffineExpr Node::count_of(ArrayRef<AffineExpr> extents) const {
  AffineExpr result = builder.getAffineConstantExpr(1);
  for (AffineExpr extent : extents) result = computed(product(result, extent));
  return result;
}

void Node::check_image(Value value) const {
  if (type_of(value).getRank() < 3) fail("the input needs rank 3 or more, has " + std::to_string(type_of(value).getRank()));
}

Value Node::splat(RankedTensorType type, double value) {
  if (!type.hasStaticShape()) {
    Value one = splat(RankedTensorType::get({}, type.getElementType()), value);
    return builder.create<tx::BroadcastOp>(location_, type, one, ArrayRef<int64_t>{});
  }
  Type element = type.getElementType();
  bool whole = value >= -0x1p53 && value <= 0x1p53 && value == static_cast<double>(static_cast<int64_t>(value));
  if (!llvm::isa<FloatType>(element) && !whole)
    fail("it computes with the constant " + std::to_string(value) + ", which integer elements cannot represent");
  Attribute attribute = llvm::isa<FloatType>(element) ? Attribute(builder.getFloatAttr(element, value))
                                                      : Attribute(builder.getIntegerAttr(element, static_cast<int64_t>(value)));
  return builder.create<tx::ConstantOp>(location_, type, SplatElementsAttr::get(llvm::cast<ShapedType>(type), attribute));
}

Value Node::converted(Value value, Type element) {
  RankedTensorType type = tx::with_element_type(type_of(value), element);
  return type == value.getType() ? value : make<tx::CastOp>(type, value);
}

Value Node::reshape(Value value, ArrayRef<AffineExpr> extents) {
  return builder.createOrFold<tx::ReshapeOp>(location_, tensor_type(extents, type_of(value).getElementType()), value);
}

Value Node::transpose(Value value, ArrayRef<int64_t> permutation) {
  Extents from = extents_of(value), to;
  for (int64_t p : permutation) to.push_back(from[p]);
  return builder.createOrFold<tx::TransposeOp>(location_, tensor_type(to, type_of(value).getElementType()), value, permutation);
}

Value Node::broadcast(Value value, ArrayRef<AffineExpr> extents) {
  Extents from = extents_of(value);
  AffineExpr one = builder.getAffineConstantExpr(1);
  if (from.size() > extents.size())
    fail("an operand of rank " + std::to_string(from.size()) + " does not broadcast to rank " + std::to_string(extents.size()));
  if (ArrayRef<AffineExpr>(from) == extents) return value;
  size_t offset = extents.size() - from.size();
  Extents kept;
  SmallVector<int64_t> dimensions;
  for (auto [i, extent] : llvm::enumerate(from)) {
    if (extent == one) continue;  // a dimension that is left out is repeated
    if (!are_equal(extent, extents[offset + i]))
      refuse_inputs("operands do not broadcast: extents differ on dimension " + std::to_string(offset + i));
    kept.push_back(extents[offset + i]);
    dimensions.push_back(offset + i);
  }
  Value squeezed = with_extents(value, kept);
  return builder.createOrFold<tx::BroadcastOp>(location_, tensor_type(extents, type_of(value).getElementType()), squeezed, dimensions);
}

Value Node::repeat(Value value, ArrayRef<AffineExpr> counts, bool elements) {
  Extents between, to;
  SmallVector<int64_t> dimensions;
  AffineExpr one = builder.getAffineConstantExpr(1);
  for (auto [extent, count] : llvm::zip(extents_of(value), counts)) {
    if (count != one && !elements) between.push_back(count);
    dimensions.push_back(between.size());
    between.push_back(extent);
    if (count != one && elements) between.push_back(count);
    to.push_back(computed(product(extent, count)));
  }
  RankedTensorType type = tensor_type(between, type_of(value).getElementType());
  return reshape(builder.createOrFold<tx::BroadcastOp>(location_, type, value, dimensions), to);
}

Value Node::extent_value(AffineExpr extent) {
  return symbolic_element(extent, RankedTensorType::get({}, builder.getI64Type()));
}

Value Node::numbers(ArrayRef<AffineExpr> expressions) {
  return from_elements({{}, std::vector<AffineExpr>(expressions.begin(), expressions.end()), 1});
}

Value Node::concatenated(SmallVector<Value> inputs, int64_t axis) {
  Extents extents = extents_of(inputs[0]);
  const Type element = type_of(inputs[0]).getElementType();
  for (Value input : ArrayRef<Value>(inputs).drop_front()) {
    Extents other = extents_of(input);
    if (other.size() != extents.size()) refuse_inputs("the inputs have different ranks");
    for (size_t i = 0; i < extents.size(); ++i) {
      if (static_cast<int64_t>(i) == axis) {
        extents[i] = computed(sum(extents[i], other[i]));
      } else if (!are_equal(extents[i], other[i])) {
        refuse_inputs("extents of the inputs differ on dimension " + std::to_string(i));
      }
    }
  }
  if (inputs.size() == 1) return inputs[0];
  for (Value& input : inputs) {
    Extents part = extents;
    part[axis] = extents_of(input)[axis];
    input = with_extents(input, part);
  }
  return make<tx::ConcatOp>(tensor_type(extents, element), inputs, builder.getI64IntegerAttr(axis));
}

Value Node::channels_last(Value value) {
  int64_t rank = type_of(value).getRank();
  SmallVector<int64_t> permutation{0};
  for (int64_t i = 2; i < rank; ++i) permutation.push_back(i);
  permutation.push_back(1);
  return transpose(value, permutation);
}

Value Node::channels_first(Value value) {
  int64_t rank = type_of(value).getRank();
  SmallVector<int64_t> permutation{0, rank - 1};
  for (int64_t i = 1; i < rank - 1; ++i) permutation.push_back(i);
  return transpose(value, permutation);
}

}  // namespace heddle::import
