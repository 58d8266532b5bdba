// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmul with a right side of tx::Nibbles, for the strategy "blocks".
#pragma once

#include "compiler/targets/strategy.h"
#include "compiler/targets/x86_64/level.h"

namespace heddle::targets::x86_64 {

// Whether the region has such a matmul.
bool has_nibbles(tx::DispatchOp region);
// As in strategies.h.
mlir::FailureOr<Plans> plans_nibbles(tx::DispatchOp region);
mlir::FailureOr<KernelResources> emit_nibbles(tx::DispatchOp region, llvm::StringRef symbol, mlir::ModuleOp kernels, const Level& level);

}  // namespace heddle::targets::x86_64
