// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expands exp, log, tanh, erf, sin, cos and powf of the math dialect to arithmetic, for targets without instructions or a library for them. f32 and f64,
// scalars and vectors. Part of the lowering to LLVM (llvm_backend.h).
#pragma once

#include <functional>
#include <memory>

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

namespace heddle::targets {

// value * 2^exponent, rounded once, for a whole exponent in the value's type; NaN if one of them is. Null for types without an instruction for it.
using ScaleByPower = std::function<mlir::Value(mlir::OpBuilder&, mlir::Location, mlir::Value value, mlir::Value exponent)>;

std::unique_ptr<mlir::Pass> expand_math(ScaleByPower scale = {});

}  // namespace heddle::targets
