// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The arithmetic of tx.narrow_decode and tx.narrow_encode: one definition for all targets. Used by scalar_body.cpp.
#pragma once

#include "compiler/ir/narrow.h"

namespace heddle::stage {

// x: i8 or a vector of them. The result: f32, likewise.
mlir::Value emit_decode_float(mlir::OpBuilder& builder, mlir::Location location, const tx::NarrowFormat& format, mlir::Value x);
// x: f32 or a vector of them. The result: i8, likewise.
mlir::Value emit_encode_float(mlir::OpBuilder& builder, mlir::Location location, tx::EncodeFloatOp op, mlir::Value x);

}  // namespace heddle::stage
