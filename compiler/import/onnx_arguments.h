// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs of a model as arguments of the function that it becomes. A sequence is as many arguments as it has elements, and an optional without a value
// is none; both are as the user stated them (specializations.h). A map is two. Used by onnx_importer.cpp.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/import/onnx_collections.h"

namespace heddle::import {

// What a type says of the tensors in it; null if it is no tensor, sequence of tensors or optional one of these.
const onnx::TypeProto_Tensor* tensor_in(const onnx::TypeProto& type);
// The name of an element of a sequence, in signatures.
std::string element_name(const std::string& sequence, size_t index);

class Arguments {
 public:
  // They are added to the block.
  Arguments(Graph& graph, mlir::Block* block, const ImportOptions& options) : graph_(graph), block_(block), options_(options) {}

  struct Argument {
    std::string name, input;
    mlir::Type type;
  };
  const std::vector<Argument>& all() const { return all_; }

  // An input as a value of the graph. Throws Failure.
  Operand add(const onnx::ValueInfoProto& input);

 private:
  // The vectors of its keys and values, x.keys and x.values.
  Operand map(const std::string& name, const onnx::TypeProto_Map& type);
  Sequence sequence(const std::string& name, const onnx::TypeProto_Tensor& tensor);
  mlir::Value argument(const std::string& name, const std::string& input, const std::string& element_of,
                       const onnx::TypeProto_Tensor& tensor);

  Graph& graph_;
  mlir::Block* block_;
  const ImportOptions& options_;
  std::vector<Argument> all_;
  std::set<std::string> names_;
};

}  // namespace heddle::import
