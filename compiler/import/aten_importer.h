// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Translates graphs of PyTorch to tx: FX graphs of ATen operators, which heddle.torch writes as MLIR text in the generic form (aten_program.h). Called by
// the pipeline; knows the tx dialect and no pass.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/onnx_importer.h"

namespace heddle::import {

// Whether the file is such a text: the module has the attribute torch.graph. False for a file that cannot be read.
bool is_aten(const std::string& path);

// The graph in `path`; null with `error` set on failure. Of the options, `dims` and those about weights are used; operators of plugins and specializations
// are for ONNX files. What is not supported is listed in one error (HEDDLE_STATUS_UNIMPLEMENTED), each as 'operator' at 'node': why.
mlir::OwningOpRef<mlir::ModuleOp> import_aten(const std::string& path, mlir::MLIRContext& context, tx::ParameterStore& parameters,
                                              ImportError& error, const ImportOptions& options = {});

// Operators that have a translation, with their overloads, sorted.
std::vector<std::string> supported_aten_ops();

}  // namespace heddle::import
