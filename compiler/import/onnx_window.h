// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows of convolutions and pools over images.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// Window along each spatial dimension.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, low, high;
};

// From the node's attributes, with the pads of auto_pad. Those that depend on symbols are not in the window but, if `open` is not null, pairs in it: of
// low and high pads, for each dimension, or empty if there are none.
using Pads = std::vector<std::pair<mlir::AffineExpr, mlir::AffineExpr>>;
Window read_padded_window(Node& node, llvm::ArrayRef<mlir::AffineExpr> spatial, std::vector<int64_t> kernel, Pads* open = nullptr);
// The channels-first image with these pads, of that value.
mlir::Value with_pads(Node& node, mlir::Value image, const Pads& pads, double value);
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
