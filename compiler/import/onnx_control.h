// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators with graphs in their attributes: If, Loop, Scan and SequenceMap. Each graph becomes a function of its own (compiler/ir/control.h), or, if it is known
// which branch is taken, its nodes take the place of the operator.
#pragma once

#include <functional>
#include <string_view>

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// What the translation of graphs in attributes needs of the importer.
struct Parts {
  // Adds the nodes of such a graph at the builder's place. Its inputs, and what it takes from outside, are among the graph's operands.
  std::function<void(const onnx::GraphProto& part)> translate;
  int count = 0;         // of branches and loops so far, for the names of functions
  int expanded = 0;      // nodes that became several ones, for the names of these
  int64_t unrolled = 0;  // nodes of steps that were translated one after the other
};

// Whether the operator has such graphs.
bool is_control(const onnx::NodeProto& node);
// The graph in an attribute of the node; throws if there is none.
const onnx::GraphProto& part_of(const Node& node, const onnx::NodeProto& proto, const std::string& name);
void check_outputs(const Node& node, const onnx::GraphProto& part, int expected, const char* name);
// A bool or an integer with one element as an i64 of rank 0.
mlir::Value as_number(Node& node, mlir::Value value, const char* what);
// The result of a graph of one input and one output, whose nodes are added for the node.
mlir::Value applied(Node& node, const onnx::GraphProto& part, const Parts& parts, mlir::Value input);
// One of these operators. Throws like any translation.
void import_control(Node& node, const onnx::NodeProto& proto, Parts& parts);

}  // namespace heddle::import
