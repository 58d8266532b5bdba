// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of the naive evaluator (reference.h) as arrays of the stages' interpreter, and back. Used by tests of stages.
#pragma once

#include "compiler/stage/interpreter.h"
#include "tests/compiler/reference.h"

namespace heddle::tests {

stage::Array to_array(const Tensor& tensor, mlir::Type element);
Tensor to_tensor(const stage::Array& array, mlir::Type element);

}  // namespace heddle::tests
