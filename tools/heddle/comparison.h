// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether two tensors hold the same numbers within a tolerance. Used by `heddle run --expect`.
#pragma once

#include <cstdint>
#include <string>

#include "tools/heddle/tensor_text.h"

namespace heddle::tool {

struct Comparison {
  bool equal = false;
  uint64_t compared = 0;
  uint64_t wrong = 0;
  std::string explanation;  // shapes that differ, or the worst element: index, got, expected, difference
};

// |got - expected| <= atol + rtol * |expected|, as numpy.isclose; NaN equals NaN, an infinity only itself. Shapes and types must be
// the same.
Comparison compare(const HostTensor& got, const HostTensor& expected, double rtol, double atol);

// "[1, 4]" for element 9 of a 2x5 tensor.
std::string index_text(const Shape& shape, uint64_t index);

}  // namespace heddle::tool
