// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that put weights into panels, once at load. Called by contraction; the layout is contraction_shape's.
#pragma once

#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/level.h"

namespace heddle::targets::x86_64 {

bool is_pack(tx::DispatchOp region);
mlir::FailureOr<KernelPlan> plan_pack(tx::DispatchOp region);
mlir::FailureOr<KernelResources> emit_pack(tx::DispatchOp region, llvm::StringRef symbol, mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
