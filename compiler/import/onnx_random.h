// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers (onnx_random.cpp). Each is a function of a seed and of its place (tx.random_bits). A node's seed is its attribute; without it, the
// function counts its calls in a state, and the seed has the number of the call and of the node.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// The name of the state, as of --state.
inline constexpr const char* calls_name = "heddle.random.calls";

// Dropout in training, of opset 6 or earlier, or with a training_mode that is not known to be false.
void dropout_in_training(Node& node);
// The state in the next call. Only if Graph::calls is set.
mlir::Value next_calls(Graph& graph, mlir::Location location);

}  // namespace heddle::import
