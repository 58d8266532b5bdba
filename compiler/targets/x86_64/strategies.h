// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The strategies of x86-64, in order of preference (targets/strategy.h). Called by the target.
#pragma once

#include "compiler/targets/strategy.h"
#include "compiler/targets/x86_64/level.h"

namespace heddle::targets::x86_64 {

#define HEDDLE_STRATEGY(name)                                                                                         \
  mlir::FailureOr<Plans> plans_##name(tx::DispatchOp region);                                                         \
  mlir::FailureOr<KernelResources> emit_##name(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol, \
                                               mlir::ModuleOp kernels, const Level& level)

HEDDLE_STRATEGY(pack);       // weights into panels, once at load
HEDDLE_STRATEGY(depthwise);  // convolutions with one channel and one column per group: vectors over channels, read directly from the image
HEDDLE_STRATEGY(winograd);   // convolutions of 3 x 3 with fewer products
HEDDLE_STRATEGY(blocks);     // matmul with weights that are decoded from blocks
HEDDLE_STRATEGY(dot_products);   // matmul of few rows with a transposed matrix as it lies
HEDDLE_STRATEGY(microkernel);    // matmul and convolution of f32
HEDDLE_STRATEGY(siblings);       // several of these that do not depend on each other
HEDDLE_STRATEGY(walks);          // ensembles of trees
HEDDLE_STRATEGY(attention);      // softmax between two matrix products
HEDDLE_STRATEGY(rows);           // reductions, softmax, normalizations
HEDDLE_STRATEGY(output_groups);  // element-wise ops, data movement, pooling: each group of outputs with one index space
HEDDLE_STRATEGY(generic);        // the rest

#undef HEDDLE_STRATEGY

// Whether "winograd" is faster than "microkernel" by enough for a convolution with a constant filter, which is packed for one of the two.
bool prefers_winograd(tx::ConvOp conv);

}  // namespace heddle::targets::x86_64
