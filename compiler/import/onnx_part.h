// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs in attributes of If, Loop and Scan while they are translated. Used only by onnx_control.cpp and onnx_loops.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/import/onnx_collections.h"
#include "compiler/import/onnx_control.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace heddle::import {

// A part while it is translated: its function, and the values from outside that its last arguments stand for.
class GraphPart {
 public:
  GraphPart(Node& node, const onnx::GraphProto& proto, Parts& parts, const std::string& name);

  mlir::FlatSymbolRefAttr name() const;
  llvm::SmallVector<mlir::Value>& results() { return results_; }  // tensors: of sequences, all of them
  const std::vector<Form>& forms() const { return forms_; }       // of outputs

  mlir::BlockArgument insert_argument(size_t index, mlir::Type type);
  mlir::BlockArgument add_argument(mlir::Type type) { return function_.getBody().front().addArgument(type, node_.location()); }

  // An input of the graph. Call before translate.
  void define(const std::string& name, Operand operand) { own_[name] = std::move(operand); }

  // Whether the graph, or a part of it, uses the name.
  bool uses(const std::string& name) const;

  // Translates the graph; `values`: from outside, for which it gets arguments, in this order. Extents that the graph declares for its outputs from
  // `declared` on are taken where it reads them: a step or a branch for which they are others is refused.
  void translate(const std::set<std::string>& captures, const llvm::SmallVector<mlir::Value>& values, size_t declared = 0);

  // Whether the type has an extent that the part itself reads, so that it is known in the part only. After translate.
  bool is_own(mlir::Type type) const;

  // The number that an output always has; none if it is not known. After translate.
  std::optional<int64_t> known(size_t output) const { return elements_[output] ? tx::static_extent(elements_[output]) : std::nullopt; }

  // Removes the function, and those that were made after it.
  void drop();

  mlir::Block* block() { return &function_.getBody().front(); }
  mlir::OpBuilder at_end() { return mlir::OpBuilder::atBlockEnd(block()); }

  // Gives a result this type, which has the same elements whenever the part runs. After translate.
  void take_type(size_t result, mlir::Type type);

  // Ends the function with results(). The memory of these arguments is for results from `first_carried` on.
  void finish(llvm::ArrayRef<size_t> carried = {}, size_t first_carried = 0);

 private:
  // The output with the extents that the graph declares in place of those that it reads.
  mlir::Value as_declared(Node& outputs, mlir::Value value, const onnx::ValueInfoProto& output) const;

  Node& node_;
  Graph& graph_;
  const onnx::GraphProto& proto_;
  Parts& parts_;
  mlir::func::FuncOp function_;
  std::map<std::string, Operand> own_;
  llvm::SmallVector<mlir::Value> results_;
  llvm::SmallVector<mlir::AffineExpr> elements_;  // of outputs; null: not one number
  std::vector<Form> forms_;
  std::vector<Check> checks_;
  const size_t first_symbol_;  // that the part may define
};

// Adds the names that the graph takes from outside.
void collect_captures(const onnx::GraphProto& graph, std::set<std::string>& captures);
// The values from outside that parts take as arguments: those that are not constants.
llvm::SmallVector<mlir::Value> captured_values(const Graph& graph, const std::set<std::string>& names);
// Whether the value is computed from constants alone, by a few ops.
bool is_constant(mlir::Value value, unsigned depth = 0);
// A copy of such a value at the builder's place; `copies` has those made so far.
mlir::Value repeated(mlir::Value value, mlir::OpBuilder& builder, mlir::IRMapping& copies);
// For messages.
std::string text_of(mlir::Type type);

// Loop and Scan.
void import_loop(Node& node, const onnx::NodeProto& proto, Parts& parts);
void import_scan(Node& node, const onnx::NodeProto& proto, Parts& parts);

}  // namespace heddle::import
