// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Translates StableHLO to tx: reads MLIR text in the generic form, writes one function @main. Called by the pipeline; knows the tx dialect and no
// pass. The text names no version: ops are those of StableHLO 1.0 and later, and of CHLO as far as the table of docs/stablehlo.md has them.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/onnx_importer.h"

namespace heddle::import {

// Whether the file is a StableHLO program in any of its forms: text, or bytecode of MLIR. False for a file that cannot be read.
bool is_stablehlo(const std::string& path);

// The program in `path`; null with `error` set on failure. Of the options, those about weights in files, operators of plugins and specializations
// are for ONNX files. Parameters refer to attributes of `context`, which has to outlive them.
mlir::OwningOpRef<mlir::ModuleOp> import_stablehlo(const std::string& path, mlir::MLIRContext& context, tx::ParameterStore& parameters,
                                                   ImportError& error, const ImportOptions& options = {});

// Ops that have a translation, by their full names, sorted.
std::vector<std::string> supported_stablehlo_ops();

}  // namespace heddle::import
