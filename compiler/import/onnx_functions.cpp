// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every call gets a copy of its body: names of values change, references to attributes become the attributes of the call.
#include "compiler/import/onnx_functions.h"

#include <deque>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/import/onnx_recurrent.h"
#include "llvm/ADT/STLExtras.h"

namespace heddle::import {
namespace {

// One body of an operator of the default domain: a serialized FunctionProto.
struct SchemaBody {
  std::string_view name;
  int64_t since;             // the opset that gave the operator this meaning
  int64_t opset;             // that the body imports
  std::string_view variant;  // the nodes that it is for, as variant_of has them; empty for all
  std::string_view bytes;
};
const SchemaBody schema_bodies[] = {
#include "onnx_functions.inc"
};

using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using AttributeList = google::protobuf::RepeatedPtrField<onnx::AttributeProto>;

std::string name_of(const onnx::NodeProto& node) {
  return !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : node.op_type();
}

std::string describe(const onnx::NodeProto& node) {
  return "node '" + name_of(node) + "' (operator " + (node.domain().empty() ? "" : node.domain() + ".") + node.op_type() + ")";
}

// LinearAttention has a body for each rule, with a past state and without.
std::string variant_of(const onnx::NodeProto& node) {
  if (node.op_type() != "LinearAttention") return {};
  std::string rule = "gated_delta";
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == "update_rule") rule = attribute.s();
  }
  return rule + (node.input_size() > 3 && !node.input(3).empty() ? "+past" : "");
}

std::string describe(const onnx::FunctionProto& function) {
  return (function.domain().empty() ? "" : function.domain() + ".") + function.name() +
         (function.overload().empty() ? "" : " (overload " + function.overload() + ")");
}

[[noreturn]] void fail(const std::string& what, const std::string& cause) {
  throw Failure{HEDDLE_STATUS_INVALID_ARGUMENT, "onnx: importing " + what + " failed: " + cause};
}

struct Function {
  const onnx::FunctionProto* proto;
  const Opsets* opsets;
};

const onnx::AttributeProto* find(const AttributeList& attributes, const std::string& name) {
  auto found = llvm::find_if(attributes, [&](const onnx::AttributeProto& one) { return one.name() == name; });
  return found == attributes.end() ? nullptr : &*found;
}

class Inliner {
 public:
  Inliner(OnnxFile& file, llvm::function_ref<bool(const onnx::NodeProto&)> is_known) : file_(file), is_known_(is_known) {
    for (const auto& function : file.model.functions()) {
      auto key = std::tuple(domain_key(function.domain()), function.name(), function.overload());
      if (!functions_.try_emplace(std::move(key), Function{&function, file.note_opsets(function.opset_import())}).second)
        fail("function '" + describe(function) + "'", "it is defined twice");
    }
  }

  void run() {
    onnx::GraphProto& graph = *file_.model.mutable_graph();
    if (!has_calls(graph)) return;
    gather_names(graph);
    expand(graph, &file_.opsets);
  }

 private:
  // What the names of a body mean in its caller, by their names in the body.
  struct Scope {
    const onnx::NodeProto& call;
    const onnx::FunctionProto& function;
    std::string prefix;
    std::map<std::string, std::string> names;
  };

  std::optional<Function> function_of(const onnx::NodeProto& node, const Opsets* opsets) {
    if (is_known_(node)) return {};
    auto found = functions_.find(std::tuple(domain_key(node.domain()), node.op_type(), node.overload()));
    if (found != functions_.end()) return found->second;
    if (!domain_key(node.domain()).empty()) return {};
    auto imported = opsets->find("");
    if (imported != opsets->end() && is_recurrent(node.op_type())) {
      written_.push_back(recurrent_body(node, imported->second));
      return Function{&written_.back(), file_.note_opsets(written_.back().opset_import())};
    }
    return imported == opsets->end() ? std::nullopt : schema_function(node, imported->second);
  }

  // The body for the operator as the opset means it: the newest one that is not newer than the opset, or else the oldest one.
  std::optional<Function> schema_function(const onnx::NodeProto& node, int64_t opset) {
    const std::string& name = node.op_type();
    const std::string variant = variant_of(node);
    const SchemaBody* best = nullptr;
    for (const SchemaBody& body : schema_bodies) {  // sorted by opsets
      if (body.name != name || body.since > opset || body.variant != variant) continue;
      if (!best || body.since > best->since || body.opset <= opset) best = &body;
    }
    if (!best) return {};
    auto [it, is_new] = parsed_.try_emplace(best);
    if (is_new) {
      if (!it->second.ParseFromArray(best->bytes.data(), static_cast<int>(best->bytes.size())))
        throw Failure{HEDDLE_STATUS_INTERNAL, "onnx: reading the body of operator " + name + " failed"};
      parsed_opsets_[best] = file_.note_opsets(it->second.opset_import());
    }
    return Function{&it->second, parsed_opsets_[best]};
  }

  bool has_calls(const onnx::GraphProto& graph) {
    return llvm::any_of(graph.node(), [&](const onnx::NodeProto& node) {
      return function_of(node, &file_.opsets) || llvm::any_of(node.attribute(), [&](const onnx::AttributeProto& attribute) {
               return has_calls(attribute.g()) || llvm::any_of(attribute.graphs(), [&](const auto& one) { return has_calls(one); });
             });
    });
  }

  void gather_names(const onnx::GraphProto& graph) {
    for (const auto& one : graph.input()) names_.insert(one.name());
    for (const auto& one : graph.initializer()) names_.insert(one.name());
    for (const auto& one : graph.sparse_initializer()) names_.insert(one.values().name());
    for (const auto& node : graph.node()) {
      names_.insert(node.output().begin(), node.output().end());
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) gather_names(attribute.g());
        for (const auto& one : attribute.graphs()) gather_names(one);
      }
    }
  }

  // "CALL/", with which no name begins yet.
  std::string new_prefix(const onnx::NodeProto& call) {
    const std::string base = name_of(call);
    int64_t& count = prefixes_[base];
    while (true) {
      ++count;
      std::string prefix = base + (count == 1 ? "" : "#" + std::to_string(count)) + "/";
      auto next = names_.lower_bound(prefix);
      if (next == names_.end() || !next->starts_with(prefix)) return prefix;
    }
  }

  void expand(onnx::GraphProto& graph, const Opsets* opsets) {
    NodeList nodes;
    nodes.Swap(graph.mutable_node());
    std::vector<std::unique_ptr<onnx::NodeProto>> result;
    expand(nodes, opsets, result);
    for (auto& node : result) graph.mutable_node()->AddAllocated(node.release());
  }

  // The nodes without calls, in their order.
  void expand(NodeList& nodes, const Opsets* opsets, std::vector<std::unique_ptr<onnx::NodeProto>>& result) {
    std::vector<std::unique_ptr<onnx::NodeProto>> all(static_cast<size_t>(nodes.size()));
    for (auto& one : llvm::reverse(all)) one.reset(nodes.ReleaseLast());
    for (auto& one : all) {
      if (std::optional<Function> function = function_of(*one, opsets)) {
        call(*one, *function, result);
        continue;
      }
      for (auto& attribute : *one->mutable_attribute()) {
        if (attribute.has_g()) expand(*attribute.mutable_g(), opsets);
        for (auto& graph : *attribute.mutable_graphs()) expand(graph, opsets);
      }
      if (opsets != &file_.opsets) file_.opsets_of_nodes[one.get()] = opsets;
      result.push_back(std::move(one));
    }
  }

  void call(const onnx::NodeProto& node, const Function& function, std::vector<std::unique_ptr<onnx::NodeProto>>& result) {
    const onnx::FunctionProto& body = *function.proto;
    const std::string who = describe(node);
    if (llvm::is_contained(open_, &body)) {
      std::string way;
      for (const auto* one : open_) way += describe(*one) + " calls ";
      fail(who, "function '" + describe(body) + "' calls itself: " + way + describe(body) + "; ONNX's functions must not be recursive");
    }
    check_opsets(*function.opsets, "function '" + describe(body) + "'");
    if (open_.size() >= deepest_calls) fail(who, "functions call each other more than " + std::to_string(deepest_calls) + " deep");
    if (node.input_size() > body.input_size())
      fail(who, "it has " + std::to_string(node.input_size()) + " inputs, and function '" + describe(body) + "' has " +
                    std::to_string(body.input_size()));
    if (node.output_size() > body.output_size())
      fail(who, "it has " + std::to_string(node.output_size()) + " outputs, and function '" + describe(body) + "' has " +
                    std::to_string(body.output_size()));
    Scope scope{node, body, new_prefix(node), {{"", ""}}};
    for (int i = 0; i < body.input_size(); ++i) {
      if (!scope.names.try_emplace(body.input(i), i < node.input_size() ? node.input(i) : "").second)
        fail(who, "function '" + describe(body) + "' has the input '" + body.input(i) + "' twice");
    }
    NodeList nodes = body.node();  // counted before they are renamed
    size_t bytes = 0;
    for (const auto& one : nodes) bytes += one.ByteSizeLong();
    count(node, static_cast<size_t>(nodes.size()) + 1, bytes);
    std::vector<std::pair<std::string, std::string>> passed_on;
    std::set<std::string> seen;
    for (int i = 0; i < body.output_size(); ++i) {
      if (!seen.insert(body.output(i)).second) fail(who, "function '" + describe(body) + "' has the output '" + body.output(i) + "' twice");
      if (i >= node.output_size() || node.output(i).empty()) continue;
      auto [known, is_new] = scope.names.try_emplace(body.output(i), node.output(i));
      if (!is_new) passed_on.emplace_back(known->second, node.output(i));  // an input is an output
    }
    for (auto [i, one] : llvm::enumerate(nodes)) {
      if (one.name().empty()) one.set_name(one.op_type() + "#" + std::to_string(i));
      one.set_name(scope.prefix + one.name());
      take_over(one, scope);
    }
    open_.push_back(&body);
    expand(nodes, function.opsets, result);
    open_.pop_back();
    for (const auto& [from, to] : passed_on) {
      auto same = std::make_unique<onnx::NodeProto>();
      same->set_name(scope.prefix + to);
      same->set_op_type("Identity");
      same->add_input(from);
      same->add_output(to);
      file_.opsets_of_nodes[same.get()] = &identity_opsets();
      result.push_back(std::move(same));
    }
  }

  static const Opsets& identity_opsets() {
    static const Opsets opsets = {{"", 13}};
    return opsets;
  }

  void count(const onnx::NodeProto& call, size_t nodes, size_t bytes) {
    nodes_ += nodes;
    bytes_ += bytes;
    if (nodes_ > most_inlined_nodes || bytes_ > most_inlined_bytes)
      fail(describe(call), "the bodies of all calls of functions together have more than " + std::to_string(most_inlined_nodes) +
                               " nodes or " + std::to_string(most_inlined_bytes) + " bytes");
  }

  // The name, in the caller, of a value of the body.
  const std::string& renamed(const std::string& name, Scope& scope) {
    auto [it, is_new] = scope.names.try_emplace(name, scope.prefix + name);
    if (is_new) {
      count(scope.call, 0, it->second.size());
      names_.insert(it->second);
    }
    return it->second;
  }

  void rename(google::protobuf::RepeatedPtrField<std::string>& names, Scope& scope) {
    for (std::string& name : names) name = renamed(name, scope);
  }

  void take_over(onnx::NodeProto& node, Scope& scope) {
    rename(*node.mutable_input(), scope);
    rename(*node.mutable_output(), scope);
    AttributeList attributes;
    for (auto& attribute : *node.mutable_attribute()) {
      if (!attribute.ref_attr_name().empty()) {
        const onnx::AttributeProto* given = argument(attribute, scope);
        if (!given) continue;  // left out by the call, and so by the node
        count(scope.call, 0, given->ByteSizeLong());
        const std::string name = attribute.name();
        attribute = *given;
        attribute.set_name(name);
      } else {
        if (attribute.has_g()) take_over(*attribute.mutable_g(), scope);
        for (auto& graph : *attribute.mutable_graphs()) take_over(graph, scope);
      }
      attributes.Add()->Swap(&attribute);
    }
    node.mutable_attribute()->Swap(&attributes);
  }

  void take_over(onnx::GraphProto& graph, Scope& scope) {
    for (auto& one : *graph.mutable_input()) one.set_name(renamed(one.name(), scope));
    for (auto& one : *graph.mutable_output()) one.set_name(renamed(one.name(), scope));
    for (auto& one : *graph.mutable_value_info()) one.set_name(renamed(one.name(), scope));
    for (auto& one : *graph.mutable_initializer()) one.set_name(renamed(one.name(), scope));
    for (auto& one : *graph.mutable_sparse_initializer()) one.mutable_values()->set_name(renamed(one.values().name(), scope));
    for (auto& node : *graph.mutable_node()) {
      if (!node.name().empty()) node.set_name(scope.prefix + node.name());
      take_over(node, scope);
    }
  }

  // The attribute that a reference of the body means: the call's, or the function's default; null if neither has it.
  const onnx::AttributeProto* argument(const onnx::AttributeProto& reference, const Scope& scope) {
    const std::string& name = reference.ref_attr_name();
    const onnx::AttributeProto* given = find(scope.call.attribute(), name);
    if (!given) given = find(scope.function.attribute_proto(), name);
    const bool is_declared = llvm::is_contained(scope.function.attribute(), name) || find(scope.function.attribute_proto(), name);
    if (!is_declared)
      fail(describe(scope.call), "function '" + describe(scope.function) + "' refers to attribute '" + name + "', which it does not have");
    if (given && reference.type() != onnx::AttributeProto::UNDEFINED && given->type() != reference.type())
      fail(describe(scope.call), "attribute '" + name + "' is " + onnx::AttributeProto::AttributeType_Name(given->type()) +
                                     ", and function '" + describe(scope.function) + "' takes " +
                                     onnx::AttributeProto::AttributeType_Name(reference.type()));
    return given;
  }

  OnnxFile& file_;
  llvm::function_ref<bool(const onnx::NodeProto&)> is_known_;
  std::map<std::tuple<std::string, std::string, std::string>, Function> functions_;  // by domain, name, overload
  std::map<const SchemaBody*, onnx::FunctionProto> parsed_;
  std::map<const SchemaBody*, const Opsets*> parsed_opsets_;
  std::deque<onnx::FunctionProto> written_;  // bodies for single calls
  std::set<std::string> names_;              // of values
  std::map<std::string, int64_t> prefixes_;  // how many calls have a name
  std::vector<const onnx::FunctionProto*> open_;
  size_t nodes_ = 0, bytes_ = 0;
};

}  // namespace

std::vector<std::string> operators_with_bodies() {
  std::vector<std::string> names;
  for (const SchemaBody& body : schema_bodies) names.emplace_back(body.name);
  return names;
}

void inline_functions(OnnxFile& file, llvm::function_ref<bool(const onnx::NodeProto&)> is_known) {
  Inliner(file, is_known).run();
}

}  // namespace heddle::import
