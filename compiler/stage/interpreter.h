// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The meaning of stages: evaluates a staged region on plain arrays, one element after another. It is the reference for the tests of every
// target. Floats are computed in f64 without rounding in between, so that a target may differ only by its own rounding.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/stage/stage.h"

namespace heddle::stage {

// An element: a float is in `real`; an integer is in `whole`, sign-extended from its width even if its type is unsigned.
struct Scalar {
  double real = 0;
  int64_t whole = 0;
};

struct Array {
  std::vector<int64_t> shape;
  std::vector<Scalar> elements;  // row-major
};

// The order in which the reduced elements of each stage.fold are visited. It changes the results by rounding only.
enum class FoldOrder {
  straight,     // one after the other; `merge` is not run
  halves,       // the first half and the second half, each from `init` on; then `merge` of the two
  interleaved,  // three walks of every third element each, of which some may be empty; `merge` joins them from the last to the first
};

// The results for these operands. `symbols` are the values of the function's symbols. Throws std::logic_error for an op that bodies may not have.
std::vector<Array> interpret(tx::DispatchOp staged_region, const std::vector<Array>& operands, llvm::ArrayRef<int64_t> symbols,
                             FoldOrder order = FoldOrder::straight);

}  // namespace heddle::stage
