// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise arithmetic for the translations of StableHLO's ops: operands have one type, which is that of the result.
#pragma once

#include "compiler/import/stablehlo_program.h"

namespace heddle::import::stablehlo {

inline bool is_float(mlir::Value value) {
  return llvm::isa<mlir::FloatType>(tx::element_of(value));
}
inline bool is_bool(mlir::Value value) {
  return tx::element_of(value).isInteger(1);
}

inline mlir::Value add(Op& op, mlir::Value a, mlir::Value b) {
  return op.binary<tx::AddOp>(a, b);
}
inline mlir::Value sub(Op& op, mlir::Value a, mlir::Value b) {
  return op.binary<tx::SubOp>(a, b);
}
inline mlir::Value mul(Op& op, mlir::Value a, mlir::Value b) {
  return op.binary<tx::MulOp>(a, b);
}
inline mlir::Value div(Op& op, mlir::Value a, mlir::Value b) {
  return op.binary<tx::DivOp>(a, b);
}
template <typename OpT>
mlir::Value unary(Op& op, mlir::Value a) {
  return op.make<OpT>(Op::type_of(a), a);
}

// The op's two operands, which have to have one type. Extents that only symbols state are made alike.
std::pair<mlir::Value, mlir::Value> like_pair(Op& op);
void need_floats(Op& op, mlir::Value value);
void need_integers(Op& op, mlir::Value value);
// Floats in f32 where the elements have fewer bits.
mlir::Value computing(Op& op, mlir::Value value);
// Whether the float has a sign, of zero too.
mlir::Value has_sign(Op& op, mlir::Value x);

}  // namespace heddle::import::stablehlo
