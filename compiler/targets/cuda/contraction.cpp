// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions: tiled where that is possible, else by the generic kernel, which needs no shared memory: every thread sums up its own elements of
// the result.
#include "compiler/targets/cuda/strategy.h"

#include "compiler/targets/cuda/tiled_contraction.h"
#include "compiler/targets/generic.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

// A region that has no tiles.
class GenericPart final : public Part {
 public:
  GenericPart(GenericKernel kernel, tx::DispatchOp region, int64_t threads) : kernel_(std::move(kernel)) {
    SmallVector<Output> outputs;
    for (auto [i, value] : llvm::enumerate(region.getBody().front().getTerminator()->getOperands()))
      outputs.push_back({value, static_cast<unsigned>(i)});
    lanes_ = std::min(kernel_.lanes(), lanes_for(kernel_.extents().back(), outputs));
    if (lanes_ == 1) lanes_ = 0;
    space_.emplace(kernel_.extents(), 1, lanes_, threads);
  }

  AffineExpr workgroups() const override { return space_->workgroups(); }
  std::string rung() const override { return "one thread a result"; }
  LogicalResult emit(KernelBuilder& k, Value block) const override {
    space_->emit(k, block, [&](ArrayRef<Value> outer, Value inner) { kernel_.emit(k, outer, inner, lanes_); });
    return success();
  }

 private:
  GenericKernel kernel_;
  int64_t lanes_ = 0;
  std::optional<ThreadSpace> space_;
};

}  // namespace

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
  std::string reason;
  auto kernel = GenericKernel::read(region, reason);
  if (failed(kernel)) return FailureOr<Parts>(root->emitError("cuda: no strategy takes this contraction (") << reason << ")");
  parts.push_back(std::make_unique<GenericPart>(std::move(*kernel), region, budget.threads));
  return parts;
}

}  // namespace heddle::targets::cuda
