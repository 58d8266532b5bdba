// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX nodes as operators of library plugins: those of a foreign domain, which the compiler knows only from manifests, and those of the default
// domain that a plugin may run instead of the compiler's kernel. Used by onnx_importer.cpp.
#pragma once

#include "compiler/import/onnx_graph.h"
#include "compiler/import/operators.h"

namespace heddle::import {

// The node as tx.custom. `types`: the types of values that the model states, by name. `dims`: extents for symbolic dimensions.
void import_custom(Node& node, const onnx::NodeProto& proto, const Operator& declared,
                   const std::map<std::string, const onnx::TypeProto*>& types, const std::map<std::string, int64_t>& dims);

// Makes one tx.dispatch, with the operator as its alternative, of all ops that the node was translated to. Returns why that is not possible, in
// which case the ops stay as they are, or an empty text.
std::string import_alternative(Node& node, const onnx::NodeProto& proto, const Operator& declared, llvm::ArrayRef<mlir::Operation*> ops);

}  // namespace heddle::import
