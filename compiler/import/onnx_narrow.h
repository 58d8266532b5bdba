// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values of narrow element types (compiler/ir/narrow.h): which operators accept them, and how they are converted.
#pragma once

#include "compiler/import/onnx_graph.h"
#include "compiler/ir/narrow.h"

namespace heddle::import {

// ONNX's name of the type: "FLOAT8E4M3FN".
std::string onnx_name(const tx::NarrowFormat& format);
// Whether the operator only moves elements, or converts them. `domain` is a domain_key().
bool accepts_narrow(const std::string& domain, const std::string& operator_name);

// How numbers become floats of 8 or 4 bits; see tx.narrow_encode.
struct Rounding {
  bool saturate = true;
  llvm::StringRef mode = "up";  // of FLOAT8E8M0
};
// The attributes `saturate` and `round_mode` of Cast and CastLike.
Rounding rounding_of(Node& node);

// The elements of a narrow type in one that holds them exactly: f32, ui8 or i8. Values of other types stay as they are.
mlir::Value widened(Node& node, mlir::Value value);
// As ONNX's Cast: the elements as `element`, if that type or the value's is narrow. Integers keep their lowest bits.
mlir::Value cast_narrow(Node& node, mlir::Value value, mlir::Type element, const Rounding& rounding);
// Floats, which are whole numbers if the type has integers: clamped to its range, or rounded.
mlir::Value quantized_narrow(Node& node, mlir::Value value, const tx::NarrowFormat& format, const Rounding& rounding);

}  // namespace heddle::import
