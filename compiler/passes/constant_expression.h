// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values depend on constants and parameters only. Used by the passes that move work to load time.
#pragma once

#include "compiler/ir/tx.h"

namespace heddle::passes {

// True if the value is a constant, a parameter, or computed from such values only.
bool is_constant_expression(mlir::Value value);

// The vector v of a constant expression tx.broadcast(v) along the last dimension, or a null value.
mlir::Value channel_vector(mlir::Value value);

// Whether a constant expression is quantized weights, moved or computed element by element, in more bits than they are stored in. Vectors, as those of
// zeros and biases, do not count.
bool widens_weights(mlir::Value value);

}  // namespace heddle::passes
