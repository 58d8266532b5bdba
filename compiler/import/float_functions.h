// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of floats that several formats have, and no operator of ONNX. The elements have one type, which is that of the result.
#pragma once

#include "compiler/import/onnx_graph.h"

namespace heddle::import {

// exp(x) - 1 and log(1 + x) without cancellation: the error of u = exp(x), rounded, is that of log(u) (W. Kahan).
mlir::Value exp_minus_one(Node& node, mlir::Value x);
mlir::Value log_plus_one(Node& node, mlir::Value x);
// 1 - erf(x), with a relative error of some 1e-7 for f32 and shorter floats, and below 1e-12 for f64.
mlir::Value complement_of_erf(Node& node, mlir::Value x);
// Whether the float has a sign, of zero too.
mlir::Value has_sign(Node& node, mlir::Value x);
// The angle of the point (x, y), from -pi to pi.
mlir::Value arc_tangent(Node& node, mlir::Value y, mlir::Value x);

}  // namespace heddle::import
