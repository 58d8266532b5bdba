// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/import/onnx_schemas.h"

#include <initializer_list>
#include <map>
#include <string_view>
#include <tuple>

#include "compiler/import/onnx_graph.h"
#include "llvm/ADT/STLExtras.h"

namespace heddle::import {
namespace {

struct SchemaAttribute {
  std::string_view name, type;  // the type by its name in onnx::AttributeProto
  bool is_required;
};
struct Schema {
  std::string_view domain, name;
  int64_t since;
  bool is_deprecated;
  int least_inputs, most_inputs, most_outputs;
  std::initializer_list<SchemaAttribute> attributes;  // sorted by name
};
// Sorted by domain, name and version.
const Schema standard_schemas[] = {
#include "onnx_schemas.inc"
};
const Schema microsoft_schemas[] = {
#include "compiler/import/onnx_microsoft_schemas.inc"
};

using Name = std::tuple<std::string_view, std::string_view>;

// The versions of an operator, oldest first.
llvm::ArrayRef<Schema> versions_in(llvm::ArrayRef<Schema> schemas, std::string_view domain, std::string_view name) {
  const Schema* first = llvm::lower_bound(schemas, Name(domain, name),
                                          [](const Schema& one, const Name& wanted) { return Name(one.domain, one.name) < wanted; });
  const Schema* last = first;
  while (last != schemas.end() && last->domain == domain && last->name == name) ++last;
  return {first, last};
}

llvm::ArrayRef<Schema> versions_of(std::string_view domain, std::string_view name) {
  auto found = versions_in(standard_schemas, domain, name);
  return found.empty() ? versions_in(microsoft_schemas, domain, name) : found;
}

// The one that is meant if the domain is imported in that version; null if none is.
const Schema* meant(llvm::ArrayRef<Schema> versions, int64_t version) {
  const Schema* found = nullptr;
  for (const Schema& one : versions) {
    if (one.since <= version) found = &one;
  }
  return found;
}

const SchemaAttribute* attribute_of(const Schema& schema, const std::string& name) {
  const auto* found = llvm::find_if(schema.attributes, [&](const SchemaAttribute& one) { return one.name == name; });
  return found == schema.attributes.end() ? nullptr : found;
}

std::string type_in_words(std::string_view type) {
  static const std::map<std::string_view, std::string> words = {
      {"FLOAT", "a float"},   {"FLOATS", "a list of floats"},   {"INT", "an integer"},   {"INTS", "a list of integers"},
      {"STRING", "a string"}, {"STRINGS", "a list of strings"}, {"TENSOR", "a tensor"},  {"TENSORS", "a list of tensors"},
      {"GRAPH", "a graph"},   {"GRAPHS", "a list of graphs"},   {"TYPE_PROTO", "a type"}};
  const auto found = words.find(type);
  return found == words.end() ? "of type " + std::string(type) : found->second;
}

std::string listed(const Schema& schema) {
  std::string names;
  for (const SchemaAttribute& one : schema.attributes) names += (names.empty() ? "'" : ", '") + std::string(one.name) + "'";
  return names.empty() ? "none at all" : names;
}

// Versions of the operator that have what the node has, as the next step.
template <typename Has>
std::string other_versions(llvm::ArrayRef<Schema> versions, Has has) {
  std::string found;
  size_t count = 0;
  for (const Schema& one : versions) {
    if (!one.is_deprecated && has(one)) found += (count++ == 0 ? "" : ", ") + std::to_string(one.since);
  }
  if (count == 0) return "; remove it, or export the model again";
  return count == 1 ? "; version " + found + " does, so the model may import the wrong opset"
                    : "; versions " + found + " do, so the model may import the wrong opset";
}

class Checker {
 public:
  explicit Checker(llvm::function_ref<bool(const onnx::NodeProto&)> is_meant) : is_meant_(is_meant) {}

  // `opsets`: as imported where the nodes are.
  void check(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const Opsets& opsets) const {
    for (const onnx::NodeProto& node : nodes) {
      check(node, opsets);
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) check(attribute.g().node(), opsets);
      }
    }
  }

 private:
  void check(const onnx::NodeProto& node, const Opsets& opsets) const {
    const std::string domain = domain_key(node.domain());
    const auto imported = opsets.find(domain);
    const int64_t opset = imported != opsets.end() ? imported->second : domain.empty() ? 0 : 1;
    const llvm::ArrayRef<Schema> versions = versions_of(domain, node.op_type());
    const Schema* schema = meant(versions, opset);
    if (!schema || schema->is_deprecated || !is_meant_(node)) return;
    auto fail = [&](const std::string& cause) {
      throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + described(node, opset) + " failed: " + cause};
    };
    const std::string version = "version " + std::to_string(schema->since) + " of the operator";
    for (const auto& attribute : node.attribute()) {
      const SchemaAttribute* known = attribute_of(*schema, attribute.name());
      if (!known) {
        fail(version + " has no attribute '" + attribute.name() + "', but " + listed(*schema) +
             other_versions(versions, [&](const Schema& one) { return attribute_of(one, attribute.name()); }));
      }
      if (attribute.type() != onnx::AttributeProto::UNDEFINED && onnx::AttributeProto::AttributeType_Name(attribute.type()) != known->type)
        fail("attribute '" + attribute.name() + "' must be " + type_in_words(known->type));
    }
    for (const SchemaAttribute& one : schema->attributes) {
      if (one.is_required && llvm::none_of(node.attribute(), [&](const auto& given) { return given.name() == one.name; }))
        fail("attribute '" + std::string(one.name) + "' is missing; it must be " + type_in_words(one.type));
    }
    if (node.input_size() > schema->most_inputs) {
      const std::string least = schema->least_inputs < schema->most_inputs ? std::to_string(schema->least_inputs) + " to " : "";
      fail("it has " + std::to_string(node.input_size()) + " inputs, and " + version + " takes " + least +
           std::to_string(schema->most_inputs) + last_of(node.input()) +
           other_versions(versions, [&](const Schema& one) { return node.input_size() <= one.most_inputs; }));
    }
    if (node.output_size() > schema->most_outputs) {
      fail("it has " + std::to_string(node.output_size()) + " outputs, and " + version + " gives at most " +
           std::to_string(schema->most_outputs) + last_of(node.output()) +
           other_versions(versions, [&](const Schema& one) { return node.output_size() <= one.most_outputs; }));
    }
  }

  static std::string last_of(const google::protobuf::RepeatedPtrField<std::string>& names) {
    return ": the last is '" + names.Get(names.size() - 1) + "'";
  }

  llvm::function_ref<bool(const onnx::NodeProto&)> is_meant_;
};

}  // namespace

int64_t version_of(const std::string& name, int64_t opset) {
  const Schema* schema = meant(versions_in(standard_schemas, "", name), opset);
  return schema ? schema->since : 0;
}

void check_schemas(OnnxFile& file, llvm::function_ref<bool(const onnx::NodeProto&)> is_meant) {
  const Checker checker(is_meant);
  checker.check(file.model.graph().node(), file.opsets);
  for (const auto& function : file.model.functions()) checker.check(function.node(), *file.note_opsets(function.opset_import()));
}

}  // namespace heddle::import
