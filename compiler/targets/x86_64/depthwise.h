// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions with one channel and one column a group: vectors over channels, straight from the image. Called by contraction.
#pragma once

#include "compiler/targets/target.h"
#include "compiler/targets/x86_64/contraction_shape.h"

namespace heddle::targets::x86_64 {

mlir::FailureOr<KernelPlan> plan_depthwise(tx::DispatchOp region, const ContractionShape& shape);
mlir::FailureOr<KernelResources> emit_depthwise(tx::DispatchOp region, const ContractionShape& shape, llvm::StringRef symbol,
                                                mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
