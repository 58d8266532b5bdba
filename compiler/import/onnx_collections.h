// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of a graph that are no tensors: sequences of tensors, optionals, and maps. They exist only while a graph is translated. How many elements a
// sequence has, and whether an optional has a value, is known then; which tensor is at a position of a sequence may be data.
#pragma once

#include "compiler/import/onnx_compound.h"
#include "compiler/import/onnx_data.h"
#include "compiler/import/onnx_graph.h"

namespace heddle::import {

struct Sequence {
  std::vector<Operand> parts;  // tensors of one element type
  // For each position, which part is there: a vector of i64, computed when the model runs. Null: all parts in their order. Parts that were erased at a
  // position that is data are in no position.
  mlir::Value order;
  int64_t length = 0;
  ElementKind element;
};

// Of an input: vectors of one length, in which each key is once.
struct Map {
  Operand keys, values;
};

// "a tensor", "a sequence of 3 tensors", "an optional without a value", "a map"
std::string kind_of(const Operand& operand);
// A sequence of these tensors. Throws if they have different element types.
Operand sequence_of(Node& node, std::vector<Operand> parts, const ElementKind& element);
// For the error of a call that is refused since something is not as the user stated it.
std::string compiled_for(const Node& node, const std::string& what);
// The tensor at a position, which is data: an i64 vector of one element in the range of positions.
Operand element_at(Node& node, const Sequence& sequence, const Integers& position);
// All tensors of a sequence in their order.
std::vector<Operand> elements_of(Node& node, const Sequence& sequence);

// DictVectorizer and CastMap of ai.onnx.ml.
void dict_vectorizer(Node& node);
void cast_map(Node& node);

// The operand with each of its values replaced.
Operand with_values(Operand operand, llvm::function_ref<mlir::Value(mlir::Value)> replace);

// What a value is apart from its tensors: two values of one form are lists of as many tensors.
struct Form {
  bool is_sequence = false;
  Optional optional = Optional::kNo;
  size_t count = 1;     // of tensors
  ElementKind element;  // of a tensor, only whether it is compound
  bool is_tensor() const { return !is_sequence && optional == Optional::kNo; }
  // Whether values of both forms are lists of as many tensors.
  bool is_like(const Form& other) const { return is_sequence == other.is_sequence && optional == other.optional && count == other.count; }
};
Form form_of(const Operand& operand);
std::string kind_of(const Form& form);
// The tensors of a value, and the value of a form made of tensors.
llvm::SmallVector<mlir::Value> tensors_of(Node& node, const Operand& operand);
Operand made_of(const Form& form, llvm::ArrayRef<mlir::Value> tensors);

}  // namespace heddle::import
