// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A naive evaluator of tx regions in f64, one loop an element. Used by tests of targets and passes as the oracle; must not
// share code with either. Integers above 2^53 are not exact.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/tx.h"

namespace heddle::tests {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;  // row-major
};

// Extents of a type, with a value for each symbol.
std::vector<int64_t> shape_of(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> symbols);
int64_t element_count(llvm::ArrayRef<int64_t> shape);

// What a value of this type becomes when it is stored: rounded to f32, f16, bf16, wrapped to the integer's width.
double stored(double value, mlir::Type element);

// The yielded tensors of the region. tx.pack gives its input unchanged, and a packed operand is expected as the tensor that was
// packed, since the packed order is the target's own.
std::vector<Tensor> evaluate(heddle::tx::DispatchOp region, llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<int64_t> symbols = {});

}  // namespace heddle::tests
