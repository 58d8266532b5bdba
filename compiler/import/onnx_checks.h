// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that ONNX defines as errors when a model runs: an index outside its dimension, an integer divided by zero. Where the model does not
// exclude them, the function gets one more result for each check (tx::checks_attr), which kernels compute and the runtime reads.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// The node reads `input` along `dimension` at these indices, or at one column of them. Indices known to be outside are refused here.
void expect_inside(Node& node, mlir::Value input, int64_t dimension, mlir::Value indices, std::optional<int64_t> column = {});
// The same where a negative index does not count from the end, but is outside.
void expect_inside_from_zero(Node& node, mlir::Value input, int64_t dimension, mlir::Value indices);
// The node divides by these integers.
void expect_not_zero(Node& node, mlir::Value divisor);
// Turns the node's expectations into ops after its own.
void make_checks(Node& node);
// All checks, as results after the model's own: the values to return, and the function's attribute.
mlir::ArrayAttr describe_checks(const Graph& graph, llvm::SmallVectorImpl<mlir::Value>& results);

}  // namespace heddle::import
