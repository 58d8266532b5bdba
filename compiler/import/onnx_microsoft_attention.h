// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention and rotary embeddings of the domain com.microsoft. Used by onnx_microsoft.cpp.
#pragma once

#include "compiler/import/onnx_graph.h"
#include "compiler/import/onnx_writer.h"

namespace heddle::import {

void multi_head_attention(Node& node, NodeWriter& w);
// Attention and QAttention, whose query, key and value are one product.
void packed_attention(Node& node, NodeWriter& w);
void quantized_attention(Node& node, NodeWriter& w);
void grouped_attention(Node& node, NodeWriter& w);
void rotary(Node& node, NodeWriter& w);

}  // namespace heddle::import
