// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes nodes of ONNX: bodies of operators that are made of others.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/import/onnx_file.h"

namespace heddle::import {

using Names = std::vector<std::string>;

// Adds nodes to a graph or a function; each method gives the name of the result.
class NodeWriter {
 public:
  // Names of nodes and values begin with `prefix`, and count on.
  NodeWriter(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int& count, std::string prefix = {})
      : nodes_(nodes), count_(count), prefix_(std::move(prefix)) {}

  // The same for a graph in an attribute of a node: names go on.
  NodeWriter within(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) { return {nodes, count_, prefix_}; }

  onnx::NodeProto& node(const std::string& type, const Names& inputs, const Names& outputs) {
    onnx::NodeProto& one = *nodes_.Add();
    one.set_op_type(type);
    one.set_name(prefix_ + type + "_" + std::to_string(count_++));
    for (const std::string& input : inputs) one.add_input(input);
    for (const std::string& output : outputs) one.add_output(output);
    return one;
  }
  std::string fresh() { return prefix_ + "value_" + std::to_string(count_++); }
  std::string op(const std::string& type, const Names& inputs) {
    std::string result = fresh();
    node(type, inputs, {result});
    return result;
  }
  // With an attribute.
  template <typename ValueT>
  std::string op(const std::string& type, const Names& inputs, const std::string& name, const ValueT& value) {
    std::string result = fresh();
    set(node(type, inputs, {result}), name, value);
    return result;
  }
  static void set(onnx::NodeProto& node, const std::string& name, int64_t value) {
    onnx::AttributeProto& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::AttributeProto::INT);
    one.set_i(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
    onnx::AttributeProto& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values) one.add_ints(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, const std::string& value) {
    onnx::AttributeProto& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::AttributeProto::STRING);
    one.set_s(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, float value) {
    onnx::AttributeProto& one = *node.add_attribute();
    one.set_name(name);
    one.set_type(onnx::AttributeProto::FLOAT);
    one.set_f(value);
  }
  std::string integers(const std::vector<int64_t>& values) {
    std::string result = fresh();
    set(node("Constant", {}, {result}), "value_ints", values);
    return result;
  }
  std::string integer(int64_t value) {
    std::string result = fresh();
    set(node("Constant", {}, {result}), "value_int", value);
    return result;
  }
  // A number of the type of `like`.
  std::string number(float value, const std::string& like) {
    std::string plain = fresh();
    set(node("Constant", {}, {plain}), "value_float", value);
    return op("CastLike", {plain, like});
  }
  std::string transpose(const std::string& value, const std::vector<int64_t>& permutation) {
    std::string result = fresh();
    set(node("Transpose", {value}, {result}), "perm", permutation);
    return result;
  }
  // Element `index` of the first dimension.
  std::string at(const std::string& value, int64_t index) { return op("Gather", {value, integer(index)}); }
  std::string unsqueeze(const std::string& value, int64_t axis) { return op("Unsqueeze", {value, integers({axis})}); }
  Names split(const std::string& value, int64_t axis, int64_t count) {
    Names results;
    for (int64_t i = 0; i < count; ++i) results.push_back(fresh());
    set(node("Split", {value}, results), "axis", axis);
    return results;
  }
  std::string concat(const Names& values, int64_t axis) {
    std::string result = fresh();
    set(node("Concat", values, {result}), "axis", axis);
    return result;
  }

 private:
  google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes_;
  int& count_;
  const std::string prefix_;
};

}  // namespace heddle::import
