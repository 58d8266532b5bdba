// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each element-wise tx op does to one element, as arith and math ops on scalars or vectors. Used where stages are formed and by every
// target's emitters; knows no loop and no memory. A target expands the math ops that it has no instructions for (targets/expand_math.h).
#pragma once

#include "compiler/ir/tx.h"

namespace heddle::stage {

// The type that values of an element type have while they are computed: f16 and bf16 as f32, integers without sign.
mlir::Type compute_type(mlir::Type element);

// Whether an element, or a vector's, is an integer without sign; bools are.
bool is_unsigned(mlir::Type type);

// The op's result, operands in compute types (scalars, or vectors of one length). Null, after a diagnostic on the op, for what
// has no body: erf, tanh's and pow's counterparts beyond f32 are named there.
mlir::Value emit_scalar_body(mlir::OpBuilder& builder, mlir::Location location, mlir::Operation* op, mlir::ValueRange operands);

// Pieces that strategies use on their own. All keep NaN.
// x to a constant power; exact square roots where the exponent is a multiple of 1/4 up to 3.
mlir::Value emit_constant_power(mlir::OpBuilder& builder, mlir::Location location, mlir::Value x, double exponent);
// Larger (or smaller) of the two; if one is NaN, either.
mlir::Value emit_fast_max(mlir::OpBuilder& builder, mlir::Location location, mlir::Value a, mlir::Value b, bool is_unsigned = false);
mlir::Value emit_fast_min(mlir::OpBuilder& builder, mlir::Location location, mlir::Value a, mlir::Value b, bool is_unsigned = false);

}  // namespace heddle::stage
