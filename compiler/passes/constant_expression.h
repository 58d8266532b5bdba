// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values depend on constants and parameters only. Used by the passes that move work to load time.
#pragma once

#include "compiler/ir/tx.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::passes {

// True if the value is a constant, a parameter, or computed from such values only.
bool is_constant_expression(mlir::Value value);

// The vector v of a constant expression tx.broadcast(v) along the last dimension, or a null value.
mlir::Value channel_vector(mlir::Value value);

// Finds constant expressions that hold quantized weights in more bits than they are stored in: moved, or computed element by element. Vectors, such as zero
// points and biases, do not count as weights. Remembers what it has seen, so no op that it was asked about may be erased before it is.
class WidenedWeights {
 public:
  bool contains(mlir::Value value);

 private:
  unsigned stored_bits(mlir::Operation* op);

  llvm::DenseMap<mlir::Operation*, unsigned> stored_bits_;  // the fewest; 0: made of no such weights
};

}  // namespace heddle::passes
