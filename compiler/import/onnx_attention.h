// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// FlexAttention, whose scores and probabilities graphs of the model change. Used by onnx_control.cpp.
#pragma once

#include "compiler/import/onnx_control.h"

namespace heddle::import {

// The node as products, a softmax between them, and the nodes of its graphs. Throws like any translation.
void flex_attention(Node& node, const onnx::NodeProto& proto, Parts& parts);

}  // namespace heddle::import
