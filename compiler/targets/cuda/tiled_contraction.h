// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tiled strategy for matmul and convolution. Called by the contraction strategy.
#pragma once

#include "compiler/targets/cuda/strategy.h"

namespace heddle::targets::cuda {

// Null if the root cannot be tiled, or no tile fits into the budget.
std::unique_ptr<Part> tile_part(tx::DispatchOp region, llvm::ArrayRef<Output> outputs, mlir::Operation* root, tx::TransposeOp transpose,
                                const Budget& budget);

}  // namespace heddle::targets::cuda
