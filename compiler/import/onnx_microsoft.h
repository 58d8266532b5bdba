// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of the domain com.microsoft, which exporters and ONNX Runtime's optimizer write, as nodes of the default domain.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/onnx_graph.h"
#include "compiler/import/onnx_writer.h"

namespace heddle::import {

inline constexpr const char* microsoft_domain = "com.microsoft";
// The opset of the nodes.
inline constexpr int64_t microsoft_opset = 24;

// Whether the operator is one of these. Exporters write a few of them in the default domain.
bool is_microsoft(const onnx::NodeProto& node);
// The nodes that compute a node's results. The types of its inputs are known. Throws like any translation.
void expand_microsoft(Node& node, NodeWriter& writer);
// "com.microsoft.Gelu" and so on.
std::vector<std::string> microsoft_operators();

}  // namespace heddle::import
