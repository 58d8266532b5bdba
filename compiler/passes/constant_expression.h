// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values depend on constants and parameters only. Used by the passes that move work to load time.
#pragma once

#include "compiler/ir/tx.h"

namespace heddle::passes {

// True if the value is a constant, a parameter, or computed from such values only.
bool is_constant_expression(mlir::Value value);

// The vector v of a constant expression tx.broadcast(v) along the last dimension, or a null value.
mlir::Value channel_vector(mlir::Value value);

}  // namespace heddle::passes
