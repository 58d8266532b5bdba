// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Equal problems are one entry of the list, with their count and the first occurrence.
#include "compiler/import/onnx_unsupported.h"

#include <algorithm>

#include "compiler/import/onnx_importer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace heddle::import {
namespace {

bool is_own(const onnx::NodeProto& node) {
  return node.domain().empty() || node.domain() == default_domain;
}

// A name as listed, shortened since many names share the list. It ends at a character boundary.
std::string shortened(const std::string& name, size_t enough_bytes = 100) {
  if (name.size() <= enough_bytes) return name;
  size_t end = enough_bytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "...";
}

std::string operator_name(const onnx::NodeProto& node) {
  return shortened((is_own(node) ? "" : node.domain() + ".") + node.op_type());
}

std::string node_name(const onnx::NodeProto& node) {
  return node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
}

// The supported operator with the most similar name, or an empty text if none is similar: as in module::nearest of the runtime, which this directory
// must not depend on, at most a third of the letters may differ, and never all of them.
std::string nearest_operator(const std::string& type) {
  std::string nearest;
  if (type.size() > 64) return nearest;
  unsigned size = static_cast<unsigned>(type.size()), least = std::min(std::max(1u, size / 3) + 1, size);
  static const std::vector<std::string> supported = supported_operators();
  for (const std::string& name : supported) {
    unsigned distance = llvm::StringRef(type).edit_distance_insensitive(name, /*AllowReplacements=*/true, /*MaxEditDistance=*/least);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

// The cause without the names of the node's own inputs and outputs, so that equal causes of other nodes compare equal.
std::string without_names(std::string cause, const onnx::NodeProto& node) {
  auto remove = [&](const std::string& name) {
    const std::string named = " ('" + name + "')";
    if (size_t at = name.empty() ? std::string::npos : cause.find(named); at != std::string::npos) cause.erase(at, named.size());
  };
  for (const std::string& name : node.input()) remove(name);
  for (const std::string& name : node.output()) remove(name);
  return cause;
}

std::string counted(size_t count, const char* what) {
  return count == 0 ? "" : std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

Unsupported::Kind& Unsupported::kind(const std::string& key, Kind made) {
  auto [it, is_new] = positions_.try_emplace(key, kinds_.size());
  if (is_new) kinds_.push_back(std::move(made));
  return kinds_[it->second];
}

void Unsupported::count_node(Kind& kind, const onnx::NodeProto& node) {
  if (kind.last_node != &node) ++kind.nodes;
  kind.last_node = &node;
  kind.is_foreign |= !is_own(node);
  if (last_node_ != &node) ++nodes_;
  last_node_ = &node;
}

void Unsupported::add_operator(const onnx::NodeProto& node, int64_t opset) {
  const std::string name = operator_name(node);
  Kind made{Order::kOperator, "operator " + name + " (opset " + std::to_string(opset) + ")", "'" + shortened(node_name(node)) + "'"};
  if (is_own(node)) made.operator_name = node.op_type();
  made.is_operator = true;
  made.message = "onnx: importing node '" + node_name(node) + "' (operator " + name + ", opset " + std::to_string(opset) +
                 ") failed: operator is not supported";
  count_node(kind("operator " + node.domain() + "." + node.op_type(), std::move(made)), node);
}

void Unsupported::add(const onnx::NodeProto& node, const Failure& failure) {
  const std::string of = "operator " + operator_name(node), first = "'" + shortened(node_name(node)) + "'",
                    opset = " (opset " + std::to_string(file_.version_for(node)) + ")";
  Kind made{Order::kNode, of + opset + ": " + shortened(failure.cause, 500) + ",", first};
  std::string key = of + ": " + without_names(failure.cause, node);
  if (!failure.element_type.empty()) {
    key = "type " + failure.element_type;
    made = {Order::kType, "element type " + failure.element_type + opset, first + " (" + of + ")"};
  }
  made.nearest = failure.nearest;
  made.message = failure.message;
  count_node(kind(key, std::move(made)), node);
}

void Unsupported::add_input(const std::string& name, const Failure& failure) {
  auto own = file_.opsets.find("");
  Kind made{Order::kType,
            "element type " + failure.element_type + (own == file_.opsets.end() ? "" : " (opset " + std::to_string(own->second) + ")"),
            "'" + shortened(name) + "'"};
  made.nearest = failure.nearest;
  made.message = failure.message;
  ++kind("type " + failure.element_type, std::move(made)).inputs;
}

void Unsupported::add_sparse(const std::string& name) {
  Kind made{Order::kInitializer, "a sparse tensor", "'" + shortened(name) + "'"};
  made.message = "onnx: importing initializer '" + name + "' failed: it is sparse, which is not supported";
  made.nearest = "a dense one";
  ++kind("sparse", std::move(made)).initializers;
}

std::string Unsupported::Kind::find_nearest() const {
  return operator_name.empty() ? nearest : nearest_operator(operator_name);
}

std::string Unsupported::Kind::describe() const {
  std::string places;
  for (const std::string& one : {counted(inputs, "input"), counted(initializers, "initializer"), counted(nodes, "node")}) {
    places += (places.empty() || one.empty() ? "" : " and ") + one;
  }
  const std::string near = find_nearest();
  return what + " in " + places + (nodes + inputs + initializers == 1 ? ", " : ", first ") + (inputs > 0 && nodes > 0 ? "input " : "") +
         first + (near.empty() ? "" : ", the nearest is " + near);
}

std::string Unsupported::help() const {
  const bool is_own = llvm::any_of(kinds_, [](const Kind& one) { return one.is_operator || !one.is_foreign; });
  const bool is_foreign = llvm::any_of(kinds_, [](const Kind& one) { return one.is_operator && one.is_foreign; });
  std::string text = is_own ? "; see docs/operators.md" : "";
  if (is_foreign) text += ", or, where a plugin brings it, give the plugin's manifest with --operators";
  return text;
}

void Unsupported::fail() const {
  constexpr size_t longest_list = 30'000;  // below largest_list_bytes
  const Kind& first = kinds_.front();
  if (kinds_.size() == 1 && first.nodes + first.inputs + first.initializers == 1) {
    const std::string near = first.find_nearest(), count = first.nodes == 0 ? ""
                                                           : all_nodes_ == 1
                                                               ? " (the model's only node)"
                                                               : " (1 of the model's " + std::to_string(all_nodes_) + " nodes)";
    throw Failure{HEDDLE_STATUS_UNIMPLEMENTED, first.message + count + (near.empty() ? "" : "; the nearest is " + near) + help()};
  }
  std::vector<const Kind*> sorted;
  for (const Kind& one : kinds_) sorted.push_back(&one);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Kind* a, const Kind* b) { return a->order < b->order; });
  std::string list;
  size_t listed = 0;
  for (; listed < sorted.size() && list.size() < longest_list; ++listed) list += (listed == 0 ? "" : "; ") + sorted[listed]->describe();
  if (listed < sorted.size()) list += "; and " + std::to_string(sorted.size() - listed) + " more";
  const std::string nodes =
      nodes_ == 0 ? "it needs" : std::to_string(nodes_) + " of its " + counted(all_nodes_, "node") + (nodes_ == 1 ? " needs" : " need");
  Failure all{HEDDLE_STATUS_UNIMPLEMENTED, "onnx: importing the model failed: " + nodes + " unsupported features: " + list + help()};
  all.is_list = true;
  throw all;
}

}  // namespace heddle::import
