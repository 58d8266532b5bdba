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

// The extents of a tensor of strings, and of the bytes of each.
Extents strings_of(mlir::Value text);
mlir::AffineExpr width_of(mlir::Value text);
Extents with_width(Extents strings, mlir::AffineExpr width);
// The text with so many zeros behind each string, and before it; none if null.
mlir::Value padded(Node& node, mlir::Value text, mlir::AffineExpr behind, mlir::AffineExpr before = {});
// Bytes start, start + 1, .. of each string.
mlir::Value part_of(Node& node, mlir::Value text, int64_t start, mlir::AffineExpr width);
// Tensors one behind the other, of which all other extents are the same.
mlir::Value joined_along(Node& node, llvm::ArrayRef<mlir::Value> parts, int64_t axis);
// The bytes at places along the last dimension; zero where `is_there` does not hold. Text, places and conditions have the same extents but the last.
mlir::Value bytes_at(Node& node, mlir::Value text, mlir::Value places, mlir::Value is_there);

// For each string its place in a list of different words, or the number of words if it is none: i64. The words are looked up by a number made of the
// bytes, and compared.
mlir::Value places_among(Node& node, mlir::Value text, const std::vector<std::string>& words);
// The same for rows of integers from 0 to limit - 1. `columns`: i64 tensors of one shape, which have the rows' first elements, second elements, ..
mlir::Value places_of_rows(Node& node, llvm::ArrayRef<mlir::Value> columns, llvm::ArrayRef<std::vector<int64_t>> rows, int64_t limit);
// The same for each word of a list that may have words twice: the places of the first ones, or of the last ones.
mlir::Value places_in(Node& node, mlir::Value text, llvm::ArrayRef<std::string> list, bool last_counts);

// Unique, of strings or of other elements.
void unique(Node& node);

// Tokenizer of com.microsoft.
void tokenizer(Node& node);

// LabelEncoder of ai.onnx.ml, of strings or numbers, and CategoryMapper.
void label_encoder(Node& node);

// RegexFullMatch as nodes that step through the bytes: a Scan with the states of an automaton, one for each string.
void expand_regex(Node& node, NodeWriter& writer);

}  // namespace heddle::import
