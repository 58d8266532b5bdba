// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See onnx_declarations.h.
#include "compiler/import/onnx_declarations.h"

#include <map>
#include <set>
#include <string_view>

#include "compiler/import/onnx_arguments.h"
#include "compiler/import/onnx_compound.h"

using namespace mlir;

namespace heddle::import {
namespace {

// A module file stores UTF-8 of up to 65,535 bytes, and combines several names in one text.
constexpr size_t largest_name_bytes = 4096;

void check_name(const std::string& name, const std::string& what) {
  auto fail = [&](const std::string& cause) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + what + " '" + name + "' failed: its name " + cause + "; rename it"};
  };
  if (name.size() > largest_name_bytes) fail("has " + std::to_string(name.size()) + " bytes, above " + std::to_string(largest_name_bytes));
  if (name.find('\0') != std::string::npos || !is_utf8(name)) fail("is not UTF-8 text");
}

void check_default(const onnx::ValueInfoProto& input, const onnx::TensorProto& stored) {
  const onnx::TypeProto_Tensor* declared = tensor_in(input.type());
  if (!declared) return;
  auto fail = [&](const std::string& is, const std::string& has) {
    throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT,
                  "onnx: importing input '" + input.name() + "' failed: it is declared with " + is + ", and its initializer has " + has};
  };
  if (declared->elem_type() != 0 && declared->elem_type() != stored.data_type())
    fail("element type " + element_type_name(declared->elem_type()), element_type_name(stored.data_type()));
  if (!declared->has_shape()) return;
  if (declared->shape().dim_size() != stored.dims_size())
    fail("rank " + std::to_string(declared->shape().dim_size()), "rank " + std::to_string(stored.dims_size()));
  for (int i = 0; i < stored.dims_size(); ++i) {
    const auto& dim = declared->shape().dim(i);
    if (dim.has_dim_value() && dim.dim_value() != stored.dims(i))
      fail("extent " + std::to_string(dim.dim_value()) + " of dimension " + std::to_string(i), std::to_string(stored.dims(i)));
  }
}

// "declared as [n,3], and is [n,2]", if that is so; empty otherwise. Names, and numbers below 1, which some exporters write for extents that they do not
// know, say nothing.
std::string contradiction(const onnx::ValueInfoProto& declared, const Graph& graph) {
  const auto found = graph.operands.find(declared.name());
  if (found == graph.operands.end() || !declared.type().has_tensor_type() || !declared.type().tensor_type().has_shape()) return {};
  const Operand& operand = found->second;
  if (!operand.is_tensor() || operand.is_matrix() || (!operand.value && !operand.elements)) return {};
  Extents own;
  if (operand.value) {
    own = Node::extents_of(operand.value);
    if (operand.is_compound()) own.pop_back();
  } else if (operand.rank == 1) {
    own.push_back(graph.builder.getAffineConstantExpr(static_cast<int64_t>(operand.elements->size())));
  }
  const auto& dims = declared.type().tensor_type().shape().dim();
  bool is_contradicted = own.size() != static_cast<size_t>(dims.size());
  std::string said;
  for (const auto& [i, dim] : llvm::enumerate(dims)) {
    const bool is_number = dim.has_dim_value();
    said += (i > 0 ? "," : "") + (is_number ? std::to_string(dim.dim_value()) : dim.dim_param().empty() ? "?" : dim.dim_param());
    if (is_contradicted || !is_number || dim.dim_value() < 1) continue;
    is_contradicted = tx::static_extent(own[i]).value_or(dim.dim_value()) != dim.dim_value();
  }
  return is_contradicted ? "declared as [" + said + "], and is " + shape_text(own, graph.symbols.names()) : "";
}

}  // namespace

void check_names(const onnx::GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) check_name(tensor.name(), "initializer");
  for (const auto& input : graph.input()) {
    check_name(input.name(), "input");
    const onnx::TypeProto_Tensor* tensor = tensor_in(input.type());
    if (!tensor) continue;
    for (const auto& dim : tensor->shape().dim()) check_name(dim.dim_param(), "dimension");
  }
  for (const auto& output : graph.output()) check_name(output.name(), "output");
  for (const auto& node : graph.node()) {
    check_name(node.name(), "node");
    check_name(node.op_type(), "operator");
    check_name(node.domain(), "domain");
    for (const std::string& name : node.output()) check_name(name, "value");
    std::set<std::string> seen;
    for (const auto& attribute : node.attribute()) {
      check_name(attribute.name(), "attribute");
      if (!seen.insert(attribute.name()).second) {
        throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing node '" + node.name() + "' (operator " + node.op_type() +
                                                          ") failed: attribute '" + attribute.name() + "' is given twice"};
      }
      if (attribute.has_g()) check_names(attribute.g());
    }
  }
}

void check_defaults(const onnx::GraphProto& graph) {
  std::map<std::string_view, const onnx::TensorProto*> stored;
  for (const onnx::TensorProto& tensor : graph.initializer()) stored[tensor.name()] = &tensor;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto found = stored.find(input.name());
    if (found != stored.end()) check_default(input, *found->second);
  }
}

void check_output(const onnx::ValueInfoProto& output, const Node& node, const Operand& value) {
  const onnx::TypeProto_Tensor* declared = output.type().has_tensor_type() ? &output.type().tensor_type() : nullptr;
  if (!declared) return;
  const int32_t type = declared->elem_type();
  if (!is_element_type(type) && !is_compound(type)) return;
  const ElementKind own = kind_of_elements(node, value),
                    wanted = element_kind(node.builder.getContext(), type, "output", /*may_be_narrow=*/true);
  if (own == wanted) return;
  node.fail("output '" + output.name() + "' is declared with element type " + element_type_name(type) + ", and its value has " +
            name_of(own));
}

void check_values(const onnx::GraphProto& proto, Graph& graph) {
  std::map<std::string_view, const onnx::NodeProto*> makers;
  for (const onnx::NodeProto& node : proto.node()) {
    for (const std::string& output : node.output()) makers.try_emplace(output, &node);
  }
  for (const onnx::ValueInfoProto& value : proto.value_info()) {
    const auto maker = makers.find(value.name());
    const auto operand = graph.operands.find(value.name());
    if (maker == makers.end() || operand == graph.operands.end() || !operand->second.is_tensor()) continue;
    if (!operand->second.value && !operand->second.elements) continue;
    graph.opset = graph.file->version_for(*maker->second);
    check_output(value, Node(graph, *maker->second, graph.builder.getUnknownLoc()), operand->second);
  }
}

std::vector<std::string> contradicted_shapes(const onnx::GraphProto& proto, const Graph& graph) {
  constexpr const char* ignored = "; what the model declares is ignored";
  std::vector<std::string> warnings;
  for (const auto& output : proto.output()) {
    if (std::string wrong = contradiction(output, graph); !wrong.empty())
      warnings.push_back("output '" + output.name() + "' is " + wrong + ignored);
  }
  std::string first;
  size_t count = 0;
  for (const auto& value : proto.value_info()) {
    std::string wrong = contradiction(value, graph);
    if (wrong.empty()) continue;
    if (++count == 1) first = "value '" + value.name() + "' is " + wrong;
  }
  if (count > 1) first += ", and so are " + std::to_string(count - 1) + " other values with shapes that they do not have";
  if (count > 0) warnings.push_back(first + ignored);
  return warnings;
}

}  // namespace heddle::import
