// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See stage_arrays.h.
#include "tests/compiler/stage_arrays.h"

#include "llvm/Support/MathExtras.h"

namespace heddle::tests {

stage::Array to_array(const Tensor& tensor, mlir::Type element) {
  stage::Array array{tensor.shape, {}};
  for (double value : tensor.data) {
    bool is_float = llvm::isa<mlir::FloatType>(element);
    int64_t whole = is_float ? 0 : static_cast<int64_t>(value);
    if (!is_float && element.getIntOrFloatBitWidth() < 64)
      whole = llvm::SignExtend64(static_cast<uint64_t>(whole), element.getIntOrFloatBitWidth());
    array.elements.push_back({is_float ? value : 0, whole});
  }
  return array;
}

Tensor to_tensor(const stage::Array& array, mlir::Type element) {
  Tensor tensor{array.shape, {}};
  bool is_float = llvm::isa<mlir::FloatType>(element);
  for (const stage::Scalar& scalar : array.elements)
    tensor.data.push_back(is_float ? scalar.real : stored(static_cast<double>(scalar.whole), element));
  return tensor;
}

}  // namespace heddle::tests
