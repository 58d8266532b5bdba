// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything that a model needs and Heddle does not support: operators, attributes and outputs of nodes, element types. Gathered by
// onnx_importer.cpp, so that one error lists all of it; knows no IR.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/import/onnx_file.h"

namespace heddle::import {

class Unsupported {
 public:
  // For a model with so many nodes.
  Unsupported(size_t nodes, const OnnxFile& file) : all_nodes_(nodes), file_(file) {}

  // A node whose operator is not supported. `opset` is that of its domain.
  void add_operator(const onnx::NodeProto& node, int64_t opset);
  // Another unsupported feature of a node, of which there may be several.
  void add(const onnx::NodeProto& node, const Failure& failure);
  // An input of the model with an unsupported element type.
  void add_input(const std::string& name, const Failure& failure);
  void add_sparse(const std::string& name);

  bool empty() const { return kinds_.empty(); }
  // Throws one error that lists all of it.
  [[noreturn]] void fail() const;

 private:
  enum class Order { kOperator, kNode, kType, kInitializer };  // the order of the list
  // One unsupported feature, whichever nodes need it.
  struct Kind {
    Order order;
    std::string what, first;
    std::string operator_name{};  // its nearest supported name is looked up when it is listed
    std::string nearest{};
    std::string message{};  // the message for the first occurrence, in case it is the only one
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
  const OnnxFile& file_;
  std::vector<Kind> kinds_;
  std::map<std::string, size_t> positions_;
  const onnx::NodeProto* last_node_ = nullptr;
  size_t nodes_ = 0;  // that need any of it
};

}  // namespace heddle::import
