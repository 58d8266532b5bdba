// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions that no strategy of this folder takes (targets/generic.h), on rows of lanes. Called by the target's plan() and emit().
#pragma once

#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/level.h"

namespace heddle::targets::x86_64 {

// Fails, with the reason and without a diagnostic, for a region that has no stages.
mlir::FailureOr<KernelPlan> plan_generic(tx::DispatchOp region, std::string& reason);
mlir::FailureOr<KernelResources> emit_generic(tx::DispatchOp region, llvm::StringRef symbol, mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
