// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that are computed of indices and constants alone, as causal masks are. Used by passes that decide where such a value is computed.
#pragma once

#include "compiler/ir/tx.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

// The ops behind such a value, operands first, of which a few compute all of it from an index; empty for any other value.
llvm::SetVector<mlir::Operation*> index_expression(mlir::Value value);

}  // namespace heddle::passes
