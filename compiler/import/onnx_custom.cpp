// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes become the canonical record, with defaults filled in. The types of results come from the declaration's rule or from the model; if the
// compiler knows the operator too, they must be the types that it computes.
#include "compiler/import/onnx_custom.h"

#include "compiler/ir/read.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace heddle::import {
namespace {

// The declaration does not fit the node or leaves something open.
struct Mismatch {
  std::string cause;
  heddle_status_code_t code = HEDDLE_STATUS_INVALID_ARGUMENT;
};

// The attribute's value and kind as the record has them; no kind for a value that a record cannot have.
std::optional<AttributeValue> value_of(const onnx::AttributeProto& attribute) {
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      return attribute.i();
    case onnx::AttributeProto::FLOAT:
      return static_cast<double>(attribute.f());
    case onnx::AttributeProto::STRING:
      return attribute.s();
    case onnx::AttributeProto::INTS:
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
    case onnx::AttributeProto::FLOATS:
      return std::vector<double>(attribute.floats().begin(), attribute.floats().end());
    default:
      return {};
  }
}

Attribute to_ir(Builder& builder, const AttributeValue& value) {
  if (auto* one = std::get_if<int64_t>(&value)) return builder.getI64IntegerAttr(*one);
  if (auto* one = std::get_if<double>(&value)) return builder.getF64FloatAttr(*one);
  if (auto* one = std::get_if<std::string>(&value)) return builder.getStringAttr(*one);
  if (auto* list = std::get_if<std::vector<int64_t>>(&value)) return builder.getDenseI64ArrayAttr(*list);
  return builder.getDenseF64ArrayAttr(std::get<std::vector<double>>(value));
}

DictionaryAttr record(Builder& builder, const onnx::NodeProto& proto, const Operator& declared) {
  for (const auto& attribute : proto.attribute()) {
    if (llvm::none_of(declared.attributes, [&](const OperatorAttribute& known) { return known.name == attribute.name(); }))
      throw Mismatch{"attribute '" + attribute.name() + "' is not declared for " + declared.describe()};
  }
  SmallVector<NamedAttribute> named;
  for (const OperatorAttribute& wanted : declared.attributes) {
    auto given = llvm::find_if(proto.attribute(), [&](const auto& attribute) { return attribute.name() == wanted.name; });
    std::optional<AttributeValue> value = given != proto.attribute().end() ? value_of(*given) : wanted.fallback;
    if (given == proto.attribute().end() && !value) throw Mismatch{"attribute '" + wanted.name + "' is missing, and has no default"};
    if (!value || value->index() != wanted.kind)
      throw Mismatch{"attribute '" + wanted.name + "' must be of type " + attribute_kinds[wanted.kind]};
    named.push_back(builder.getNamedAttr(wanted.name, to_ir(builder, *value)));
  }
  return builder.getDictionaryAttr(named);
}

Type named_type(Builder& builder, StringRef name) {
  if (name == "f16") return builder.getF16Type();
  if (name == "bf16") return builder.getBF16Type();
  if (name == "f32") return builder.getF32Type();
  if (name == "f64") return builder.getF64Type();
  if (name == "bool") return builder.getI1Type();
  unsigned width = 0;
  const bool is_unsigned = name.consume_front("u");
  if (!is_unsigned) name.consume_front("i");
  name.getAsInteger(10, width);
  return is_unsigned ? builder.getIntegerType(width, false) : builder.getIntegerType(width);
}

// What the declaration says about an output's type, given the inputs.
class OutputRules {
 public:
  OutputRules(Builder& builder, const Operator& declared, ArrayRef<Value> inputs)
      : builder_(builder), declared_(declared), inputs_(inputs) {}

  // Null if it does not say.
  Type element(size_t index) const {
    const OperatorOutput& rule = declared_.outputs[index];
    if (rule.type_of >= 0) return Node::type_of(inputs_[rule.type_of]).getElementType();
    return rule.type.empty() ? Type() : named_type(builder_, rule.type);
  }
  std::optional<Extents> extents(size_t index) const {
    const OperatorOutput& rule = declared_.outputs[index];
    if (rule.extents_of >= 0) return Node::extents_of(inputs_[rule.extents_of]);
    if (!rule.extents) return std::nullopt;
    Extents extents;
    for (const OperatorExtent& extent : *rule.extents) extents.push_back(said(extent));
    return extents;
  }

 private:
  AffineExpr said(const OperatorExtent& extent) const {
    if (extent.input < 0) return builder_.getAffineConstantExpr(extent.value);
    const Extents of_input = Node::extents_of(inputs_[extent.input]);
    if (static_cast<size_t>(extent.dim) >= of_input.size()) {
      throw Mismatch{"input '" + declared_.inputs[extent.input] + "' has rank " + std::to_string(of_input.size()) + ", and an output of " +
                     declared_.describe() + " takes its extent " + std::to_string(extent.dim)};
    }
    return of_input[extent.dim];
  }

  Builder& builder_;
  const Operator& declared_;
  ArrayRef<Value> inputs_;
};

// The types of a foreign operator's results: those that its declaration leaves open come from the model.
class Results {
 public:
  Results(Node& node, const Operator& declared, ArrayRef<Value> inputs, const std::map<std::string, const onnx::TypeProto*>& types,
          const std::map<std::string, int64_t>& dims)
      : node_(node), declared_(declared), rules_(node.builder, declared, inputs), types_(types), dims_(dims) {}

  RankedTensorType type_of(size_t index, const std::string& value) {
    const onnx::TypeProto* said = nullptr;
    if (auto known = types_.find(value); known != types_.end() && known->second->has_tensor_type()) said = known->second;
    auto unknown = [&](const char* what) {
      return Mismatch{std::string("the ") + what + " of output " + std::to_string(index) + " ('" + value + "') " +
                      "is not known: the declaration of " + declared_.describe() +
                      " does not say it, and the model has no value_info with it; add it to one of them"};
    };
    Type element = rules_.element(index);
    if (!element) {
      if (!said || said->tensor_type().elem_type() == 0) throw unknown("element type");
      element = element_type(node_.builder.getContext(), said->tensor_type().elem_type(), node_.describe());
    }
    std::optional<Extents> extents = rules_.extents(index);
    if (!extents) {
      if (!said || !said->tensor_type().has_shape()) throw unknown("shape");
      extents.emplace();
      for (const auto& dim : said->tensor_type().shape().dim()) extents->push_back(said_extent(dim, value));
    }
    return node_.tensor_type(*extents, element);
  }

 private:
  // The symbol must be an input's: no other symbol has a value when a call begins.
  AffineExpr said_extent(const onnx::TensorShapeProto::Dimension& dim, const std::string& value) {
    if (dim.has_dim_value()) return node_.builder.getAffineConstantExpr(dim.dim_value());
    const std::string& name = dim.dim_param();
    if (auto known = dims_.find(name); known != dims_.end()) return node_.builder.getAffineConstantExpr(known->second);
    std::optional<AffineExpr> symbol = node_.graph.symbols.find(name);
    if (name.empty() || !symbol) {
      throw Mismatch{"the model's value_info of '" + value + "' has the extent '" + name +
                         "', which is not a dimension of an input; the size of an " + "operator's result must be known before it runs",
                     HEDDLE_STATUS_UNIMPLEMENTED};
    }
    return *symbol;
  }

  Node& node_;
  const Operator& declared_;
  OutputRules rules_;
  const std::map<std::string, const onnx::TypeProto*>& types_;
  const std::map<std::string, int64_t>& dims_;
};

// The number of inputs, without those left out at the end.
int count_inputs(const onnx::NodeProto& proto, const Operator& declared) {
  int given = proto.input_size();
  while (given > 0 && proto.input(given - 1).empty()) --given;
  const size_t count = static_cast<size_t>(given);
  if (count < declared.required_inputs || count > declared.inputs.size()) {
    throw Mismatch{"it has " + std::to_string(count) + " inputs, and " + declared.describe() + " takes " +
                   std::to_string(declared.required_inputs) +
                   (declared.inputs.size() > declared.required_inputs ? " to " + std::to_string(declared.inputs.size()) : "")};
  }
  for (int i = 0; i < given; ++i) {
    if (proto.input(i).empty())
      throw Mismatch{"input " + std::to_string(i) + " is left out before others, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED};
  }
  if (static_cast<size_t>(proto.output_size()) > declared.outputs.size()) {
    throw Mismatch{"it has " + std::to_string(proto.output_size()) + " outputs, and " + declared.describe() + " gives " +
                   std::to_string(declared.outputs.size())};
  }
  return given;
}

void make_custom(Node& node, const onnx::NodeProto& proto, const Operator& declared,
                 const std::map<std::string, const onnx::TypeProto*>& types, const std::map<std::string, int64_t>& dims) {
  SmallVector<Value> inputs;
  for (int i = 0, count = count_inputs(proto, declared); i < count; ++i) inputs.push_back(node.input(i));
  DictionaryAttr attributes = record(node.builder, proto, declared);
  Results results(node, declared, inputs, types, dims);
  SmallVector<Type> result_types;
  for (size_t i = 0; i < declared.outputs.size(); ++i) {
    result_types.push_back(results.type_of(i, static_cast<int>(i) < proto.output_size() ? proto.output(i) : std::string()));
  }
  auto custom = node.builder.create<tx::CustomOp>(node.location(), result_types, inputs, declared.domain, declared.name,
                                                  static_cast<uint64_t>(declared.version), attributes, /*slot=*/StringAttr());
  for (int i = 0; i < proto.output_size(); ++i) node.set_result(custom.getResult(i), i);
}

// The ops become the body of one region over the node's own inputs.
void make_alternative(Node& node, const onnx::NodeProto& proto, const Operator& declared, ArrayRef<Operation*> ops) {
  SmallVector<Value> inputs, results;
  for (int i = 0, count = count_inputs(proto, declared); i < count; ++i) {
    inputs.push_back(node.operand(i).value);
    if (!inputs.back()) throw Mismatch{"input " + std::to_string(i) + " is a shape, which is known when the model is compiled"};
  }
  llvm::SmallPtrSet<Operation*, 8> own(ops.begin(), ops.end());
  SmallVector<Operand*> outputs;
  OutputRules rules(node.builder, declared, inputs);
  for (int i = 0; i < proto.output_size(); ++i) {
    auto made = node.graph.operands.find(proto.output(i));
    if (made == node.graph.operands.end()) throw Mismatch{"output " + std::to_string(i) + " is left out"};
    Operand& output = made->second;
    if (output.elements || !own.contains(output.value.getDefiningOp())) throw Mismatch{"it computes nothing"};
    std::optional<Extents> extents = rules.extents(i);
    Type element = rules.element(i);
    if ((element && element != Node::type_of(output.value).getElementType()) || (extents && *extents != Node::extents_of(output.value)))
      throw Mismatch{"output " + std::to_string(i) + " is not of the type that " + declared.describe() + " declares"};
    outputs.push_back(&output);
    results.push_back(output.value);
  }
  // What is computed in the region cannot be read outside of it, by checks or as an extent.
  for (const Expected& expected : node.graph.expected) {
    if (own.contains(expected.value.getDefiningOp())) throw Mismatch{"it checks numbers that it computes"};
  }
  for (Operation* op : ops) {
    if (llvm::isa<tx::ReadOp>(op)) throw Mismatch{"it has extents that data decides"};
    for (Value operand : op->getOperands()) {
      if (!llvm::is_contained(inputs, operand) && !own.contains(operand.getDefiningOp()))
        throw Mismatch{"it uses a value that is not one of its inputs"};
    }
  }
  auto operation = tx::OperationAttr::get(node.builder.getContext(), declared.domain, declared.name,
                                          static_cast<uint64_t>(declared.version), record(node.builder, proto, declared));
  // No error is possible from here on.
  auto region = node.builder.create<tx::DispatchOp>(node.location(), ValueRange(results).getTypes(), inputs, proto.op_type(),
                                                    /*slot=*/mlir::StringAttr(), operation);
  Block& body = region.getBody().emplaceBlock();
  for (Value input : inputs) body.addArgument(input.getType(), input.getLoc());
  for (Operation* op : ops) {
    op->moveBefore(&body, body.end());
    for (OpOperand& operand : op->getOpOperands()) {
      if (auto input = llvm::find(inputs, operand.get()); input != inputs.end()) operand.set(body.getArgument(input - inputs.begin()));
    }
  }
  OpBuilder::atBlockEnd(&body).create<tx::YieldOp>(node.location(), results);
  for (auto [output, result] : llvm::zip_equal(outputs, region.getResults())) output->value = result;
}

}  // namespace

void import_custom(Node& node, const onnx::NodeProto& proto, const Operator& declared,
                   const std::map<std::string, const onnx::TypeProto*>& types, const std::map<std::string, int64_t>& dims) {
  try {
    make_custom(node, proto, declared, types, dims);
  } catch (const Mismatch& mismatch) {
    node.fail(mismatch.cause, mismatch.code);
  }
}

std::string import_alternative(Node& node, const onnx::NodeProto& proto, const Operator& declared, ArrayRef<Operation*> ops) {
  try {
    make_alternative(node, proto, declared, ops);
  } catch (const Mismatch& mismatch) {
    return mismatch.cause;
  }
  return {};
}

}  // namespace heddle::import
