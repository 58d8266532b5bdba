// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions of element-wise ops and data movement. Called by the target's plan() and emit().
#include "compiler/targets/x86_64/elemental.h"

using namespace mlir;

namespace heddle::targets::x86_64 {

FailureOr<KernelPlan> plan_elemental(tx::DispatchOp region) { return region.emitError("x86_64: no strategy for this region"); }

FailureOr<KernelResources> emit_elemental(tx::DispatchOp region, const KernelPlan&, llvm::StringRef, ModuleOp, const Level&) {
  return region.emitError("x86_64: no strategy for this region");
}

}  // namespace heddle::targets::x86_64
