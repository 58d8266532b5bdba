// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows of convolutions and pools over images.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// Window along each spatial dimension.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, low, high;
};

// From the node's attributes, with the pads of auto_pad.
Window read_padded_window(Node& node, llvm::ArrayRef<mlir::AffineExpr> spatial, std::vector<int64_t> kernel);
// The type of a result for a channels-last image, with that many channels. ceil: also windows that are not full count.
mlir::RankedTensorType output_type(Node& node, mlir::Value image, const Window& window, mlir::AffineExpr channels, bool ceil);
// The convolution as the node's attributes define it, of [N, C, spatial...] with [F, C / groups, spatial...]; the result is channels-last.
mlir::Value convolved(Node& node, mlir::Value input, mlir::Value filter);
// Where MaxPool found its results: places in the whole input, [N, C, outputs...] of i64. by_columns: the first spatial dimension counts fastest. `outputs`
// is the channels-last type of the results.
mlir::Value places_of_largest(Node& node, mlir::Value image, const Window& window, mlir::RankedTensorType outputs, bool by_columns);
// BatchNormalization with the mean and the variance of its input, and its further outputs.
void batch_norm_in_training(Node& node);

}  // namespace heddle::import
