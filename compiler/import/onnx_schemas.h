// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the schemas of ONNX's operators, and ONNX Runtime's of com.microsoft, admit: versions, attributes, and how many inputs and outputs. Knows
// protobuf, but no IR. Used by onnx_importer.cpp.
#pragma once

#include "compiler/import/onnx_file.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace heddle::import {

// The version of an operator of the default domain that an opset means, or 0 if unknown, since a later one may define the operator differently.
int64_t version_of(const std::string& name, int64_t opset);

// Throws Failure for a node of the model or of one of its functions that has an attribute that its operator does not have, or one of another type,
// lacks one that it has to have, or has more inputs or outputs than the operator. `is_meant`: whether the node means the operator of that name.
void check_schemas(OnnxFile& file, llvm::function_ref<bool(const onnx::NodeProto&)> is_meant);

}  // namespace heddle::import
