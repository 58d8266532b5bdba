// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that are computed only from indices and constants, such as causal masks. For passes that decide where such a value is computed.
#pragma once

#include "compiler/ir/tx.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

// The ops that compute such a value, operands first, if a few ops compute all of it from an index; empty for any other value.
llvm::SetVector<mlir::Operation*> index_expression(mlir::Value value);

}  // namespace heddle::passes
