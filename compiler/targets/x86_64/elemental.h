// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions of element-wise ops, data movement and reductions. Called by the target's plan() and emit().
#pragma once

#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/level.h"

namespace heddle::targets::x86_64 {

mlir::FailureOr<KernelPlan> plan_elemental(tx::DispatchOp region);
mlir::FailureOr<KernelResources> emit_elemental(tx::DispatchOp region, const KernelPlan& plan, llvm::StringRef symbol,
                                                mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
