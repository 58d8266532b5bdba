// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// exp, log, tanh, erf and powf of the math dialect by arithmetic, for targets without instructions or a library for them. f32 and f64, scalars
// and vectors; erf in f32 only. Part of the lowering to LLVM (llvm_backend.h).
#pragma once

#include <memory>

#include "mlir/Pass/Pass.h"

namespace heddle::targets {

std::unique_ptr<mlir::Pass> expand_math();

}  // namespace heddle::targets
