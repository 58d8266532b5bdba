// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// numpy's broadcasting of a node's inputs, for element-wise operators.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// The extents that operands of these extents broadcast to. Throws if they do not.
Extents common_extents(Node& node, llvm::ArrayRef<Extents> operands);
// All inputs, which have to have one element type, with the extents that they broadcast to. Throws if they do not.
llvm::SmallVector<mlir::Value> broadcast_inputs(Node& node);

}  // namespace heddle::import
