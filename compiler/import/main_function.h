// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The function @main of a program that is not an ONNX file, around the translation of its ops; and the imports that follow one another until nothing
// more is learned about its symbols. Used by the importers of StableHLO and of PyTorch's graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/import/onnx_graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::import {

// An argument or a result of @main.
struct Port {
  std::string name;
  mlir::Type type;
  mlir::Value value;
  unsigned source;  // the argument or result of the program's function that it is, or is a part of
};

// An empty @main in an empty module, and where its ops are inserted.
struct MainFunction {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder builder;
  mlir::func::FuncOp function;
  mlir::Block* block;

  explicit MainFunction(mlir::MLIRContext* context);
  // Returns the results, with the checks of the graph and its count of calls, and writes the signature and the symbols.
  void finish(Graph& graph, llvm::ArrayRef<Port> arguments, llvm::ArrayRef<Port> results);
};

// Imports the file until nothing more is learned (onnx_symbols.h). `import` makes the module, and throws Failure; `error` gets its message. `advice` is
// behind messages about a file that is wrong and say no more.
mlir::OwningOpRef<mlir::ModuleOp> import_until_learned(
    const std::string& format, const std::string& path, const std::string& advice, tx::ParameterStore& parameters, ImportError& error,
    llvm::function_ref<mlir::OwningOpRef<mlir::ModuleOp>(const std::shared_ptr<OnnxFile>& file, Meanings& meanings)> import);

// Results of an operator of ONNX's default domain, newest opset, that has a table of its own (onnx_graph.h). `named` names it in messages.
std::vector<mlir::Value> call_operator(Graph& graph, mlir::Location location, const std::string& named, const std::string& type,
                                       llvm::ArrayRef<Operand> inputs, int outputs = 1,
                                       llvm::function_ref<void(onnx::NodeProto&)> attributes = {});

// The ops behind `before` in the builder's block, or all if it is null, must be valid IR with extents that tensors can have: why they are not, or an
// empty text.
std::string refuse_made(mlir::OpBuilder& builder, mlir::Operation* before);

}  // namespace heddle::import
