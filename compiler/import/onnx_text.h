// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strings. A tensor of them is a tensor of bytes (u8) with one more dimension, the last: the UTF-8 text of each string, and zeros behind it. So
// kernels compute with strings as with numbers, on every device. NumPy's dtype 'S' has the same layout.
#pragma once

#include "compiler/import/onnx_graph.h"
#include "compiler/import/onnx_writer.h"

namespace heddle::import {

// The element type of text.
mlir::Type text_element(mlir::MLIRContext* context);
// The strings of a list, or of a stored tensor, as a constant. `who` names them in errors.
mlir::Value text_constant(mlir::OpBuilder& builder, llvm::ArrayRef<std::string> strings, llvm::ArrayRef<int64_t> dims,
                          const std::string& who, mlir::Location location);
mlir::Value text_constant(mlir::OpBuilder& builder, const onnx::TensorProto& tensor, const std::string& who, mlir::Location location);

// Whether each string is each of the keys, a vector of strings: bools, with a new last dimension for the keys.
mlir::Value are_each(Node& node, mlir::Value text, mlir::Value keys);

// LabelEncoder of ai.onnx.ml, of strings or numbers.
void label_encoder(Node& node);

// RegexFullMatch as nodes that step through the bytes: a Scan with the states of an automaton, one for each string.
void expand_regex(Node& node, NodeWriter& writer);

}  // namespace heddle::import
