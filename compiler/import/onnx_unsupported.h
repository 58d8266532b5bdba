// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a model asks for and Heddle does not have: operators, attributes and outputs of nodes, element types. Gathered by onnx_importer.cpp, so that one error
// tells all of it; knows no IR.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/import/onnx_file.h"

namespace heddle::import {

class Unsupported {
 public:
  // Of a model with so many nodes, which asks for that opset of the default domain.
  Unsupported(size_t nodes, int64_t opset) : all_nodes_(nodes), opset_(opset) {}

  // A node of an operator that is not there. `opset` is that of its domain.
  void add_operator(const onnx::NodeProto& node, int64_t opset);
  // What else is not there for a node, of which there may be several.
  void add(const onnx::NodeProto& node, const Failure& failure);
  // An input of the model, of an element type that is not there.
  void add_input(const std::string& name, const Failure& failure);
  void add_sparse(const std::string& name);

  bool empty() const { return kinds_.empty(); }
  // Throws one error with all of it.
  [[noreturn]] void fail() const;

 private:
  enum class Order { kOperator, kNode, kType, kInitializer };  // in which they are listed
  // What is not there once, whoever asks for it.
  struct Kind {
    Order order;
    std::string what, first;
    std::string operator_name{};  // of which the nearest is asked for, where it is listed
    std::string nearest{};
    std::string message{};  // of the first one, were it the only one
    bool is_foreign = false, is_operator = false;
    size_t nodes = 0, inputs = 0, initializers = 0;
    const onnx::NodeProto* last_node = nullptr;

    std::string find_nearest() const;
    std::string describe() const;
  };

  Kind& kind(const std::string& key, Kind made);
  void count_node(Kind& kind, const onnx::NodeProto& node);
  std::string help() const;

  size_t all_nodes_;
  int64_t opset_;
  std::vector<Kind> kinds_;
  std::map<std::string, size_t> positions_;
  const onnx::NodeProto* last_node_ = nullptr;
  size_t nodes_ = 0;  // that ask for any of it
};

}  // namespace heddle::import
