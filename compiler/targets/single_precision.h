// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sin, cos and powf of f32 without any f64, for targets whose devices may not have it. Scalars and vectors.
//
// Every f32 is covered, and results differ from the exact ones by less than 1.5 units in the last place, where the device's additions, products and
// fused multiply-adds are rounded to nearest, its divisions are wrong by at most 3 units, and nothing is reassociated or contracted. Where a device
// flushes denormal numbers, such operands count as zero for powf, and such results become zero.
#pragma once

#include <memory>

#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"

namespace heddle::targets {

// sin or cos of x. NaN for infinities and NaN; sin keeps the sign of zero.
mlir::Value single_sine_or_cosine(mlir::OpBuilder& builder, mlir::Location location, mlir::Value x, bool is_cosine);

// x^y with the special cases of pow in C's annex F.
mlir::Value single_power(mlir::OpBuilder& builder, mlir::Location location, mlir::Value x, mlir::Value y);

// As expand_math (expand_math.h), but ops of f32 become ops of f32 and integers only. Results of sin, cos and powf may differ from those of
// expand_math in the last digit.
std::unique_ptr<mlir::Pass> expand_math_without_f64();

}  // namespace heddle::targets
