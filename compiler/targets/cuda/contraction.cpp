// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions by tiles, and the results that they store in another order.
#include "compiler/targets/cuda/strategy.h"

#include "compiler/targets/cuda/tiled_contraction.h"

using namespace mlir;

namespace heddle::targets::cuda {

void store_transposed(KernelBuilder& k, ElementEvaluator& evaluator, Value elements, unsigned result, tx::TransposeOp transpose,
                      const Point& read) {
  Point written = read;
  for (auto [i, p] : llvm::enumerate(transpose.getPermutation())) written.at[i] = read.at[p];
  evaluator.store(elements, k.result(result), tx::tensor(transpose.getResult()), written);
}

FailureOr<Parts> contraction_parts(tx::DispatchOp region, ArrayRef<Output> outputs, Operation* root, tx::TransposeOp transpose,
                                   const Budget& budget) {
  Parts parts;
  // Tiles are laid out for the usual number of threads.
  if (auto part = budget.threads == usual_threads ? tile_part(region, outputs, root, transpose, budget) : nullptr) {
    parts.push_back(std::move(part));
    return parts;
  }
  return FailureOr<Parts>(root->emitError("cuda: no tile fits this contraction"));
}

}  // namespace heddle::targets::cuda
