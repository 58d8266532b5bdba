// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of each element-wise tx op on one element, as arith and math ops on scalars or vectors. Used to form stages and by every target's
// emitters; knows no loop and no memory. A target expands the math ops that it has no instructions for (targets/expand_math.h).
#pragma once

#include "compiler/ir/tx.h"

namespace heddle::stage {

// The type in which values of an element type are computed: f32 for f16 and bf16, signless for integers.
mlir::Type compute_type(mlir::Type element);

// Whether an element, or a vector's element, is an unsigned integer; bools are.
bool is_unsigned(mlir::Type type);

// The op's result, with operands in compute types (scalars, or vectors of one length). Null, after a diagnostic on the op, if it has no body,
// for example erf, tanh and pow beyond f32.
mlir::Value emit_scalar_body(mlir::OpBuilder& builder, mlir::Location location, mlir::Operation* op, mlir::ValueRange operands);

// Building blocks that strategies also use. All keep NaN.
// x to a constant power; uses exact square roots if the exponent is a multiple of 1/4 up to 3.
mlir::Value emit_constant_power(mlir::OpBuilder& builder, mlir::Location location, mlir::Value x, double exponent);

}  // namespace heddle::stage
