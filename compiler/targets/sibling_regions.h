// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides a region whose results do not depend on each other into a region for each result. Called by strategies that put the workgroups of several
// contractions, such as Q, K and V of a layer, into one kernel. Knows no machine.
#pragma once

#include "compiler/ir/tx.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::targets {

struct SiblingRegion {
  tx::DispatchOp region;
  llvm::SmallVector<unsigned> inputs;  // of the whole region
};

struct SiblingRegions {
  mlir::OwningOpRef<mlir::ModuleOp> module;  // has the regions, in a function with the symbols of the whole region's
  llvm::SmallVector<SiblingRegion> all;      // in the order of the results
};

// Fails, without a diagnostic, if there are not several results, or if a result overwrites an operand. Results may share ops, which each computes for
// itself.
mlir::FailureOr<SiblingRegions> sibling_regions(tx::DispatchOp region);

}  // namespace heddle::targets
