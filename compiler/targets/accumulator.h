// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What pooling, reduction and softmax share: accumulators of a kind. Knows no loop.
#pragma once

#include "compiler/targets/kernel_builder.h"

namespace heddle::targets {

class Accumulator {
 public:
  Accumulator(KernelBuilder& kernel, tx::ReduceKind kind, mlir::Type element) : k_(kernel), kind_(kind), element_(element) {}

  mlir::Value identity(int64_t lanes) const;
  mlir::Value combine(mlir::Value accumulated, mlir::Value value) const;
  // Lanes outside the mask do not count.
  mlir::Value masked(mlir::Value value, mlir::Value mask, int64_t lanes) const;
  // All lanes of a vector combined, in a fixed order.
  mlir::Value across_lanes(mlir::Value vector) const;
  // The sum over `count` (i64) elements divided by it.
  mlir::Value mean(mlir::Value sum, mlir::Value count) const;

 private:
  KernelBuilder& k_;
  tx::ReduceKind kind_;
  mlir::Type element_;  // as in memory
};

}  // namespace heddle::targets
