// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Translates ONNX files to tx: reads the file, infers shapes, writes one function @main. Called by the pipeline; knows the tx dialect and no
// pass. Opsets 1 to 27 of the default domain, versions 1 to 5 of ai.onnx.ml.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/import/operators.h"
#include "compiler/import/parameter_files.h"
#include "compiler/import/placements.h"
#include "compiler/import/specializations.h"
#include "compiler/ir/parameter_store.h"
#include "heddle/status.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::import {

struct ImportError {
  heddle_status_code_t code = HEDDLE_STATUS_OK;
  std::string message;
};

struct ImportOptions {
  std::map<std::string, int64_t> dims;            // extents for symbolic dimensions, by name
  Placements* placements = nullptr;               // queried for every node, input and output
  const Operators* operators = nullptr;           // operators of foreign domains
  bool all_weights = false;                       // every weight is a parameter, whatever its size (docs/parameters.md)
  std::vector<std::string>* donations = nullptr;  // gets those that the model's metadata names (donations.h)
  std::vector<std::string>* states = nullptr;     // likewise
  ParameterFiles* files = nullptr;                // weights that they have are left to them; without any, it may be null
  std::vector<std::string> parameter_names = {};  // of such weights, as ParameterFiles::resolve takes them
  Specializations* specializations = nullptr;     // null if there are none
  std::vector<std::string>* warnings = nullptr;   // gets those about the model
};

// The model in `path`; null with `error` set on failure. Parameters refer to the file's bytes and stay readable as long as `parameters` exists.
mlir::OwningOpRef<mlir::ModuleOp> import_onnx(const std::string& path, mlir::MLIRContext& context, tx::ParameterStore& parameters,
                                              ImportError& error, const ImportOptions& options = {});

// Operators of both domains that have a translation, sorted.
std::vector<std::string> supported_operators();

}  // namespace heddle::import
