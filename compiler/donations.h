// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments that a model's caller gives up, named by the user or by the model file: INPUT is donated, INPUT=OUTPUT lets an output take the input's
// memory. They become attributes of the function's arguments (tx::donated_attr, tx::alias_attr). State, INPUT=OUTPUT, is an alias in memory that calls
// keep (tx::state_attr).
#pragma once

#include <string>
#include <vector>

#include "mlir/IR/BuiltinOps.h"

namespace heddle::compiler {

// Returns an error text, or an empty text. An output takes the memory of an input only if both have the same type and extents.
std::string apply_donations(mlir::ModuleOp module, const std::vector<std::string>& donations, const std::vector<std::string>& states);

}  // namespace heddle::compiler
