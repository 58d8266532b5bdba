// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX nodes as operators of library plugins: those of a foreign domain, of which nothing else is known, and those of the default domain that a
// plugin may run instead of the compiler's kernel. Used by onnx_importer.cpp.
#pragma once

#include "compiler/import/onnx_graph.h"
#include "compiler/import/operators.h"

namespace heddle::import {

// The node as tx.custom. `types`: what the model says of its values, by name. `dims`: extents for symbolic dimensions.
void import_custom(Node& node, const onnx::NodeProto& proto, const Operator& declared,
                   const std::map<std::string, const onnx::TypeProto*>& types, const std::map<std::string, int64_t>& dims);

// The version of an operator of the default domain that an opset means, or 0: a later one may do something else.
int64_t version_of(const std::string& name, int64_t opset);

// Makes one tx.dispatch, with the operator as its alternative, of all the ops that the node was translated to. What stands against it, or an empty
// text: then they stay as they are.
std::string import_alternative(Node& node, const onnx::NodeProto& proto, const Operator& declared, llvm::ArrayRef<mlir::Operation*> ops);

}  // namespace heddle::import
