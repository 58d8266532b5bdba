// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX nodes of a foreign domain, as operators of library plugins. Used by onnx_importer.cpp; what they compute is not known here.
#pragma once

#include "compiler/import/onnx_graph.h"
#include "compiler/import/operators.h"

namespace heddle::import {

// The node as tx.custom. `types`: what the model says of its values, by name. `dims`: extents for symbolic dimensions.
void import_custom(Node& node, const onnx::NodeProto& proto, const Operator& declared,
                   const std::map<std::string, const onnx::TypeProto*>& types, const std::map<std::string, int64_t>& dims);

}  // namespace heddle::import
