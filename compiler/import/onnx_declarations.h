// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a model says about its names and values, held against what a module can have and what the values are. All throw Failure.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// Names end up in the module, in its report and in error texts: they are UTF-8 of limited length. A node has each attribute once.
void check_names(const onnx::GraphProto& graph);

// Inputs that have a stored value, by which they are constants, are declared with the type and the extents of what is stored.
void check_defaults(const onnx::GraphProto& graph);

// The element type that an output is declared with is that of its value. `node`: what errors name.
void check_output(const onnx::ValueInfoProto& output, const Node& node, const Operand& value);
// The same for the results of nodes, as far as the graph declares them. All nodes are translated.
void check_values(const onnx::GraphProto& proto, Graph& graph);

// What is declared with a rank or an extent that its value does not have: ONNX Runtime runs such models, too, so these are warnings, one for each output
// of the model, and one for all other values.
std::vector<std::string> contradicted_shapes(const onnx::GraphProto& proto, const Graph& graph);

}  // namespace heddle::import
