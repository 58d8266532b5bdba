// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The meaning of stages: evaluates a staged region on plain arrays, one element after another. The oracle of every target's tests. Floats are
// computed in f64 and not rounded in between, so that what a target may differ by is its own rounding alone.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/stage/stage.h"

namespace heddle::stage {

// An element: floats are in `real`, integers in `whole`, sign-extended from their width whatever their sign.
struct Scalar {
  double real = 0;
  int64_t whole = 0;
};

struct Array {
  std::vector<int64_t> shape;
  std::vector<Scalar> elements;  // row-major
};

// How the reduced elements of each stage.fold are gone through. Whichever way, the results are the same but for rounding.
enum class FoldOrder {
  straight,     // one after the other; `merge` is not run
  halves,       // the first half and the second half, each from `init` on; then `merge` of the two
  interleaved,  // of three walks each takes every third element, and there may be none for one; `merge` joins them from the last to the first
};

// The results for these operands. `symbols` are the values of the function's symbols. Throws std::logic_error for an op that no body may have.
std::vector<Array> interpret(tx::DispatchOp staged_region, const std::vector<Array>& operands, llvm::ArrayRef<int64_t> symbols,
                             FoldOrder order = FoldOrder::straight);

}  // namespace heddle::stage
