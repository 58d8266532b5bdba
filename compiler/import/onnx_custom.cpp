// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes become the canonical record, defaults filled in; the types of results come from the declaration's rule, or from the model.
#include "compiler/import/onnx_custom.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace heddle::import {
namespace {

// The attribute's value as the record keeps it, with its kind; no kind for what a record cannot hold.
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

DictionaryAttr record(Node& node, const onnx::NodeProto& proto, const Operator& declared) {
  for (const auto& attribute : proto.attribute()) {
    if (llvm::none_of(declared.attributes, [&](const OperatorAttribute& known) { return known.name == attribute.name(); }))
      node.fail("attribute '" + attribute.name() + "' is not declared for " + declared.describe());
  }
  SmallVector<NamedAttribute> named;
  for (const OperatorAttribute& wanted : declared.attributes) {
    auto given = llvm::find_if(proto.attribute(), [&](const auto& attribute) { return attribute.name() == wanted.name; });
    std::optional<AttributeValue> value = given != proto.attribute().end() ? value_of(*given) : wanted.fallback;
    if (given == proto.attribute().end() && !value) node.fail("attribute '" + wanted.name + "' is missing, and has no default");
    if (!value || value->index() != wanted.kind)
      node.fail("attribute '" + wanted.name + "' must be of type " + attribute_kinds[wanted.kind]);
    named.push_back(node.builder.getNamedAttr(wanted.name, to_ir(node.builder, *value)));
  }
  return node.builder.getDictionaryAttr(named);
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

class Results {
 public:
  Results(Node& node, const Operator& declared, ArrayRef<Value> inputs, const std::map<std::string, const onnx::TypeProto*>& types,
          const std::map<std::string, int64_t>& dims)
      : node_(node), declared_(declared), inputs_(inputs), types_(types), dims_(dims) {}

  RankedTensorType type_of(size_t index, const std::string& value) {
    const OperatorOutput& rule = declared_.outputs[index];
    const onnx::TypeProto* said = nullptr;
    if (auto known = types_.find(value); known != types_.end() && known->second->has_tensor_type()) said = known->second;
    auto unknown = [&](const char* what) {
      node_.fail(std::string("the ") + what + " of output " + std::to_string(index) + " ('" + value + "') " +
                 "is not known: the declaration of " + declared_.describe() +
                 " does not say it, and the model has no value_info with it; add it to one of them");
    };
    Type element;
    if (rule.type_of >= 0) {
      element = Node::type_of(inputs_[rule.type_of]).getElementType();
    } else if (!rule.type.empty()) {
      element = named_type(node_.builder, rule.type);
    } else {
      if (!said || said->tensor_type().elem_type() == 0) unknown("element type");
      element = element_type(node_.builder.getContext(), said->tensor_type().elem_type(), node_.describe());
    }
    Extents extents;
    if (rule.extents_of >= 0) {
      extents = Node::extents_of(inputs_[rule.extents_of]);
    } else if (rule.extents) {
      for (const OperatorExtent& extent : *rule.extents) extents.push_back(declared_extent(extent));
    } else {
      if (!said || !said->tensor_type().has_shape()) unknown("shape");
      for (const auto& dim : said->tensor_type().shape().dim()) extents.push_back(said_extent(dim, value));
    }
    return node_.tensor_type(extents, element);
  }

 private:
  AffineExpr declared_extent(const OperatorExtent& extent) {
    if (extent.input < 0) return node_.builder.getAffineConstantExpr(extent.value);
    const Extents of_input = Node::extents_of(inputs_[extent.input]);
    if (static_cast<size_t>(extent.dim) >= of_input.size()) {
      node_.fail("input '" + declared_.inputs[extent.input] + "' has rank " + std::to_string(of_input.size()) + ", and an output of " +
                 declared_.describe() + " takes its extent " + std::to_string(extent.dim));
    }
    return of_input[extent.dim];
  }

  // A symbol is one of the inputs': nothing else has a value when a call begins.
  AffineExpr said_extent(const onnx::TensorShapeProto::Dimension& dim, const std::string& value) {
    if (dim.has_dim_value()) return node_.builder.getAffineConstantExpr(dim.dim_value());
    const std::string& name = dim.dim_param();
    if (auto known = dims_.find(name); known != dims_.end()) return node_.builder.getAffineConstantExpr(known->second);
    auto symbol = llvm::find(node_.graph.symbols, name);
    if (name.empty() || symbol == node_.graph.symbols.end()) {
      node_.fail("the model's value_info of '" + value + "' has the extent '" + name +
                     "', which is no dimension of an input; the size of an " + "operator's result must be known before it runs",
                 HEDDLE_STATUS_UNIMPLEMENTED);
    }
    return node_.builder.getAffineSymbolExpr(symbol - node_.graph.symbols.begin());
  }

  Node& node_;
  const Operator& declared_;
  ArrayRef<Value> inputs_;
  const std::map<std::string, const onnx::TypeProto*>& types_;
  const std::map<std::string, int64_t>& dims_;
};

}  // namespace

void import_custom(Node& node, const onnx::NodeProto& proto, const Operator& declared,
                   const std::map<std::string, const onnx::TypeProto*>& types, const std::map<std::string, int64_t>& dims) {
  int inputs_given = proto.input_size();
  while (inputs_given > 0 && proto.input(inputs_given - 1).empty()) --inputs_given;
  const size_t given = static_cast<size_t>(inputs_given);
  if (given < declared.required_inputs || given > declared.inputs.size()) {
    node.fail("it has " + std::to_string(given) + " inputs, and " + declared.describe() + " takes " +
              std::to_string(declared.required_inputs) +
              (declared.inputs.size() > declared.required_inputs ? " to " + std::to_string(declared.inputs.size()) : ""));
  }
  SmallVector<Value> inputs;
  for (int i = 0; i < inputs_given; ++i) {
    if (!node.has_input(i))
      node.fail("input " + std::to_string(i) + " is left out before others, which is not supported", HEDDLE_STATUS_UNIMPLEMENTED);
    inputs.push_back(node.input(i));
  }
  if (static_cast<size_t>(proto.output_size()) > declared.outputs.size()) {
    node.fail("it has " + std::to_string(proto.output_size()) + " outputs, and " + declared.describe() + " gives " +
              std::to_string(declared.outputs.size()));
  }
  DictionaryAttr attributes = record(node, proto, declared);
  Results results(node, declared, inputs, types, dims);
  SmallVector<Type> result_types;
  for (size_t i = 0; i < declared.outputs.size(); ++i) {
    result_types.push_back(results.type_of(i, static_cast<int>(i) < proto.output_size() ? proto.output(i) : std::string()));
  }
  auto custom = node.builder.create<tx::CustomOp>(node.location(), result_types, inputs, declared.domain, declared.name,
                                                  static_cast<uint64_t>(declared.version), attributes, /*slot=*/StringAttr());
  for (int i = 0; i < proto.output_size(); ++i) node.set_result(custom.getResult(i), i);
}

}  // namespace heddle::import
