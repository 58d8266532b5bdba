// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs in attributes whose nodes take the place of the operator: branches that are known to be taken, and the steps of loops that carry sequences or
// optionals. What the user stated of their results (specializations.h) may decide which branch is taken and how many steps there are.
#pragma once

#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_control.h"

namespace heddle::import {

// The nodes of a graph in place of the node: its outputs for these inputs. Its names have no meaning afterwards.
std::vector<Operand> inlined(Node& node, const onnx::GraphProto& part, llvm::ArrayRef<Operand> inputs, const Parts& parts);
// Whether the value may be of a form, as far as the user stated it for that name.
bool is_stated(const Graph& graph, const std::string& name, const Form& form);
// Calls in which the number, an i64 tensor of one element, is not that one, or is less, are refused.
void pin(Node& node, mlir::Value number, int64_t expected, const std::string& what, bool at_least = false);
// A Loop that carries sequences or optionals, with `rows` stacked outputs.
void unroll_loop(Node& node, const onnx::GraphProto& body, int carried, int rows, Parts& parts);
void sequence_map(Node& node, const onnx::NodeProto& of_node, Parts& parts);

}  // namespace heddle::import
