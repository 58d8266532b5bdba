// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes whose operators are functions: those that the model defines itself, and those among ONNX's operators that its schemas define by a body. They
// are replaced by the nodes of their bodies before the graph is translated. Knows protobuf, but no IR. Used by onnx_importer.cpp.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/onnx_file.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace heddle::import {

// A function may call functions up to this depth; all nodes of bodies together, and their bytes, are limited too.
inline constexpr size_t deepest_calls = 64, most_inlined_nodes = size_t{1} << 18, most_inlined_bytes = size_t{1} << 30;

// Replaces every node of the graph and of its subgraphs whose operator is a function and not known otherwise: a call of a function of the model by
// domain, name and overload, or of an operator of the default domain with a body. A value VALUE of the body becomes "CALL/VALUE", where CALL is the
// name of the node, which gets a number if it is not unique. Notes the opsets that the body imports for each of its nodes. Throws Failure for
// functions that call themselves, that do not fit their calls, and that are too many.
void inline_functions(OnnxFile& file, llvm::function_ref<bool(const onnx::NodeProto&)> is_known);

// The operators of the default domain with such a body.
std::vector<std::string> operators_with_bodies();

}  // namespace heddle::import
