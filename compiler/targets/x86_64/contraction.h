// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions whose root is a matmul, a convolution or a packing of weights. Called by the target's plan() and emit().
#pragma once

#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/level.h"

namespace heddle::targets::x86_64 {

// True if the region holds tx.matmul, tx.conv or tx.pack.
bool is_contraction(tx::DispatchOp region);
mlir::FailureOr<KernelPlan> plan_contraction(tx::DispatchOp region);
mlir::FailureOr<KernelResources> emit_contraction(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                                  mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
