// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_arguments.h"

#include "compiler/import/onnx_compound.h"
#include "compiler/ir/tx.h"

using namespace mlir;

namespace heddle::import {
namespace {

// An input's extents, as in the signature and as in the graph.
struct InputType {
  RankedTensorType declared, meant;
};

// Of a tensor with that name in the signature. `element_of`: the sequence that it is in; empty if it is an input by itself. Elements of a sequence may
// have different extents, so that a dimension's name means another symbol in each.
InputType input_type(Graph& graph, const std::string& name, const std::string& element_of, const onnx::TypeProto_Tensor& tensor,
                     const ImportOptions& options) {
  std::string who = "input '" + name + "'";
  auto fail = [&](const std::string& cause) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + who + " failed: " + cause};
  };
  Extents declared, meant;
  auto known_extent = [&](int64_t value) {
    declared.push_back(graph.builder.getAffineConstantExpr(value));
    meant.push_back(declared.back());
  };
  // an unnamed dimension is a symbol of its own
  auto named_extent = [&](int i, const std::string& given, const std::string& scope) {
    const std::string shown = given.empty() ? name + "." + std::to_string(i) : given;
    if (auto known = options.dims.find(shown); known != options.dims.end()) return known_extent(known->second);
    const std::string key = given.empty() ? Symbols::unnamed(name, i) : scope.empty() ? given : scope + "." + given;
    declared.push_back(graph.symbols.declared(key));
    meant.push_back(graph.symbols.meant(key));
    graph.symbols.equate(declared.back(), meant.back(), "dimension " + std::to_string(i) + " of " + who, /*learn=*/false);
  };
  if (tensor.has_shape()) {
    for (int i = 0; i < tensor.shape().dim_size(); ++i) {
      const auto& dim = tensor.shape().dim(i);
      if (dim.has_dim_value()) {
        known_extent(dim.dim_value());
      } else {
        named_extent(i, dim.dim_param(), element_of.empty() ? "" : name);
      }
    }
  } else {
    const std::vector<std::string>* stated = options.specializations ? options.specializations->shape_of(name) : nullptr;
    if (!stated && !element_of.empty() && options.specializations) stated = options.specializations->shape_of(element_of);
    if (!stated)
      fail("it has no shape; export the model with one, whose dimensions may be names, or state it, such as --specialize '" +
           (element_of.empty() ? name : element_of) + "=[n,4]'");
    for (auto [i, dim] : llvm::enumerate(*stated)) {
      int64_t number = 0;
      if (!llvm::StringRef(dim).getAsInteger(10, number)) {
        known_extent(number);
      } else {
        named_extent(static_cast<int>(i), dim == "?" ? "" : dim, "");
      }
    }
  }
  const ElementKind kind = element_kind(graph.builder.getContext(), tensor.elem_type(), who, /*may_be_narrow=*/true);
  if (kind.compound == onnx::TensorProto::STRING) {
    named_extent(static_cast<int>(declared.size()), "", "");
  } else if (kind.compound) {
    known_extent(2);
  }
  for (const Extents& extents : {declared, meant}) {
    if (std::string cause = refuse_extents(extents); !cause.empty()) fail(cause);
  }
  return {tx::tensor_type(declared, kind.type), tx::tensor_type(meant, kind.type)};
}

bool is_map(const onnx::TypeProto& type) {
  if (!type.has_map_type() || !type.map_type().value_type().has_tensor_type()) return false;
  const int32_t key = type.map_type().key_type();
  return key == onnx::TensorProto::INT64 || key == onnx::TensorProto::STRING;
}

[[noreturn]] void refuse_input(const std::string& input, const std::string& cause, heddle_status_code_t code) {
  throw Failure{code, "onnx: importing input '" + input + "' failed: " + cause};
}

}  // namespace

const onnx::TypeProto_Tensor* tensor_in(const onnx::TypeProto& type) {
  const onnx::TypeProto& value = type.has_optional_type() ? type.optional_type().elem_type() : type;
  const onnx::TypeProto& element = value.has_sequence_type() ? value.sequence_type().elem_type() : value;
  return element.has_tensor_type() ? &element.tensor_type() : nullptr;
}

std::string element_name(const std::string& sequence, size_t index) {
  return sequence + "[" + std::to_string(index) + "]";
}

// What an input is that is neither a tensor, nor a sequence of tensors, nor a map, and what to do about it.
std::string refused_kind(const onnx::TypeProto& type) {
  const onnx::TypeProto& value = type.has_optional_type() ? type.optional_type().elem_type() : type;
  if (value.has_sparse_tensor_type()) return "it is a sparse tensor; make it a dense one";
  if (value.has_map_type())
    return "it is an optional map, or one whose keys are neither INT64 nor STRING or whose values are no tensors; give the tensors of its "
           "keys and values as inputs";
  if (!value.has_sequence_type()) return "it is no tensor, no sequence of tensors, no map, and no optional one of these";
  const onnx::TypeProto& element = value.sequence_type().elem_type();
  const std::string of = element.has_sequence_type()        ? "sequences"
                         : element.has_map_type()           ? "maps"
                         : element.has_optional_type()      ? "optionals"
                         : element.has_sparse_tensor_type() ? "sparse tensors"
                                                            : "values of no type";
  return "it is a sequence of " + of + ", and only sequences of tensors are supported; give its tensors as inputs, or as one sequence";
}

Operand Arguments::add(const onnx::ValueInfoProto& input) {
  const std::string& name = input.name();
  const onnx::TypeProto& type = input.type().has_optional_type() ? input.type().optional_type().elem_type() : input.type();
  if (is_map(input.type())) return map(name, input.type().map_type());
  const onnx::TypeProto_Tensor* tensor = tensor_in(input.type());
  if (!tensor) refuse_input(name, refused_kind(input.type()), HEDDLE_STATUS_UNIMPLEMENTED);
  Operand operand;
  const std::optional<bool> presence = input.type().has_optional_type() ? graph_.stated_presence(name) : std::nullopt;
  if (presence == false) {
    operand.optional = Optional::kAbsent;
    return operand;
  }
  if (type.has_sequence_type()) {
    operand.sequence = std::make_shared<const Sequence>(sequence(name, *tensor));
  } else {
    operand.value = argument(name, name, "", *tensor);
    if (is_compound(tensor->elem_type())) operand.refused_type = tensor->elem_type();
  }
  if (input.type().has_optional_type()) operand.optional = Optional::kPresent;
  return operand;
}

Sequence Arguments::sequence(const std::string& name, const onnx::TypeProto_Tensor& tensor) {
  Sequence made;
  made.element = element_kind(graph_.builder.getContext(), tensor.elem_type(), "input '" + name + "'");
  const std::optional<int64_t> length = graph_.stated_length(name);
  if (!length)
    refuse_input(name,
                 "it is a sequence, and its number of elements is not in the file; compile the model for one number of them, such as "
                 "--specialize '" +
                     name + "=3'",
                 HEDDLE_STATUS_UNIMPLEMENTED);
  made.length = *length;
  for (size_t i = 0; i < static_cast<size_t>(*length); ++i)
    made.parts.push_back(Operand::of(argument(element_name(name, i), name, name, tensor), made.element.compound));
  return made;
}

Operand Arguments::map(const std::string& name, const onnx::TypeProto_Map& type) {
  onnx::TypeProto_Tensor keys, values;
  keys.set_elem_type(type.key_type());
  values.set_elem_type(type.value_type().tensor_type().elem_type());
  for (onnx::TypeProto_Tensor* side : {&keys, &values}) side->mutable_shape()->add_dim()->set_dim_param(name + ".size");
  Map made;
  const std::pair<onnx::TypeProto_Tensor*, Operand*> sides[] = {{&keys, &made.keys}, {&values, &made.values}};
  for (const auto& [tensor, operand] : sides) {
    const std::string own = name + (tensor == &keys ? ".keys" : ".values");
    *operand =
        Operand::of(argument(own, name, "", *tensor), is_compound(tensor->elem_type()) ? std::optional(tensor->elem_type()) : std::nullopt);
  }
  Operand operand;
  operand.map = std::make_shared<const Map>(std::move(made));
  return operand;
}

Value Arguments::argument(const std::string& name, const std::string& input, const std::string& element_of,
                          const onnx::TypeProto_Tensor& tensor) {
  const InputType type = input_type(graph_, name, element_of, tensor, options_);
  if (!names_.insert(name).second) refuse_input(name, "it is defined twice", HEDDLE_STATUS_INVALID_ARGUMENT);
  Location location = NameLoc::get(graph_.builder.getStringAttr(name));
  Value argument = block_->addArgument(type.declared, location);
  if (type.meant != type.declared) argument = graph_.builder.create<tx::ReshapeOp>(location, type.meant, argument);
  all_.push_back({name, input, type.declared});
  return argument;
}

}  // namespace heddle::import
