// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element-wise ops and data movement: every output element is computed by the thread that stores it, with accesses of 128 bits if they fit.
#include "compiler/targets/cuda/strategy.h"

#include "compiler/targets/output_space.h"

using namespace mlir;

namespace heddle::targets::cuda {

namespace {

class ElementwisePart final : public Part {
 public:
  ElementwisePart(tx::DispatchOp region, ArrayRef<Output> outputs, OutputSpace space, int64_t threads)
      : region_(region),
        outputs_(outputs),
        space_(std::move(space)),
        lanes_(lanes_for(product(ArrayRef<AffineExpr>(space_.extents).take_back(space_.flattened)), outputs)),
        threads_(space_.extents, space_.flattened, lanes_, threads) {}

  AffineExpr workgroups() const override { return threads_.workgroups(); }
  bool works_in_place() const override { return true; }

  LogicalResult emit(KernelBuilder& k, Value block) const override {
    LogicalResult all = success();
    ElementEvaluator evaluator(k, region_);
    space_.prepare(evaluator);
    threads_.emit(k, block, [&](ArrayRef<Value> outer, Value inner) {
      all = store_outputs(k, evaluator, outputs_, space_.point(k, outer, inner, lanes_));
    });
    return all;
  }

 private:
  tx::DispatchOp region_;
  std::vector<Output> outputs_;
  OutputSpace space_;
  int64_t lanes_;
  ThreadSpace threads_;
};

}  // namespace

int64_t lanes_for(AffineExpr inner, ArrayRef<Output> outputs) {
  auto fixed = llvm::dyn_cast<AffineConstantExpr>(inner);
  if (!fixed) return 0;
  int64_t lanes = 8;
  for (const Output& output : outputs) {
    int64_t bytes = std::max<int64_t>(1, tx::tensor(output.value).getElementTypeBitWidth() / 8);
    lanes = std::min<int64_t>(lanes, std::max<int64_t>(1, 16 / bytes));
  }
  while (lanes > 1 && fixed.getValue() % lanes != 0) lanes /= 2;
  return lanes > 1 ? lanes : 0;
}

Parts elementwise_parts(tx::DispatchOp region, ArrayRef<Output> outputs, const Budget& budget) {
  Parts parts;
  for (OutputSpace& space : output_spaces(outputs)) {
    parts.push_back(std::make_unique<ElementwisePart>(region, outputs, std::move(space), budget.threads));
  }
  return parts;
}

}  // namespace heddle::targets::cuda
