// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements that are several numbers each: strings (their bytes, onnx_text.h) and complex numbers (the real and the imaginary part). A tensor of them is
// a tensor of these numbers with one more dimension, the last. ONNX's operators move complex numbers, and compute with none.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

bool is_compound(int32_t onnx_type);
// The type of the numbers that an element of such a type is made of; null for any other type.
mlir::Type number_type(mlir::MLIRContext* context, int32_t onnx_type);

// What the elements of a value of the model are: the element type of its tensor, and ONNX's number of their type if they are compound.
struct ElementKind {
  mlir::Type type;
  std::optional<int32_t> compound;
  bool operator==(const ElementKind&) const = default;
};
// Throws for types that are not supported.
ElementKind element_kind(mlir::MLIRContext* context, int64_t onnx_type, const std::string& who, bool may_be_narrow = false);
ElementKind kind_of_elements(const Node& node, const Operand& tensor);
// "STRING", "f32"
std::string name_of(const ElementKind& kind);

// The rank of a tensor in the model.
int64_t rank_of(const Operand& operand, mlir::Value value);
// The values with one extent of the last dimension if they are strings: zeros are put behind shorter ones. `by_data`: also where widths are symbols.
void align(Node& node, std::optional<int32_t> compound, llvm::SmallVectorImpl<mlir::Value>& values, bool by_data);

// Whether the translation of the operator itself knows compound elements of the input. `domain` is a domain_key().
bool carries_compound(const std::string& domain, const std::string& type, int input);
// Whether the operator only moves elements, or asks for extents.
bool moves_compound(const std::string& domain, const std::string& type);
// A node with such an operator: its translation moves the numbers of the elements, and then the elements are looked up.
void move_compound(Node& node, const onnx::NodeProto& proto, import::Translate translate);

}  // namespace heddle::import
