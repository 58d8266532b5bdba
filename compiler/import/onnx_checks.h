// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that ONNX calls an error when a model runs: an index outside its dimension, an integer divided by zero. Where the model does not show that they
// cannot be, the function gets one more result for each check (tx::checks_attr), which kernels compute and the runtime looks at.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// The node reads `input` along `dimension` at these indices, or at one column of them. What can be seen here to be outside is refused.
void expect_inside(Node& node, mlir::Value input, int64_t dimension, mlir::Value indices, std::optional<int64_t> column = {});
// The node divides by these integers.
void expect_not_zero(Node& node, mlir::Value divisor);
// What the node expects becomes ops behind its own.
void make_checks(Node& node);
// All of them, as results behind the model's own: values to return, and the function's attribute.
mlir::ArrayAttr describe_checks(const Graph& graph, llvm::SmallVectorImpl<mlir::Value>& results);

}  // namespace heddle::import
