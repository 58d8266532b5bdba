// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which values depend only on constants and parameters. For the passes that move work to load time.
#pragma once

#include "compiler/ir/tx.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle::passes {

// True if the value is a constant, a parameter, or computed from such values only.
bool is_constant_expression(mlir::Value value);

// The vector v, if the value is a constant expression tx.broadcast(v) along the last dimension; else null.
mlir::Value channel_vector(mlir::Value value);

// Finds constant expressions whose quantized weights have more bits than they are stored in, because they are moved or computed element by
// element. Vectors, such as zero points and biases, do not count as weights. Results are cached, so no op that was queried may be erased
// while this object is in use.
class WidenedWeights {
 public:
  bool contains(mlir::Value value);

 private:
  unsigned stored_bits(mlir::Operation* op);

  llvm::DenseMap<mlir::Operation*, unsigned> stored_bits_;  // the fewest bits; 0: no such weights
};

}  // namespace heddle::passes
